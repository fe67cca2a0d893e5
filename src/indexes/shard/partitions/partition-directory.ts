import { invariant, StepwellError } from '../../../errors.ts';
import { control } from '../../../pool/control.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../../verbs/index.ts';
import type { ShardGeometry } from '../table/geometry.ts';
import {
  nameAfter,
  ROOT_BYTES,
  type RootName,
  refuseNoRoot,
  rootNamed,
  Segments,
} from '../table/segments.ts';

/**
 * The root of a store: the directory of its tables, one for each partition of the keys.
 *
 *    0  the memory nodes of the placement, one bit each
 *   64  the name of each partition's root, 8 bytes each: see RootName
 *       then the first roots themselves; a migrated table gets another one
 *
 * The partition of a key never changes, and all segments of its table are on one memory node.
 * `placement.ts` chooses the node, `migration.ts` moves the table there.
 */
const NODES = 0;
const ROOTS = 64;
/** One bit each in a word. */
export const NODES_MAX = 64;
const WRITE_BYTES = 32 * 1024;

/** Attempts to change the placement. Only administrators change it, so they hardly collide. */
const CHANGES_MAX = 1000;
/** Roots to follow. Each is a migration that began since this client last read the directory. */
const HOPS_MAX = 1000;

/** Raises SW_POOL_CORRUPT for a walk from root to root that does not end: it must be a cycle. */
export function refuseEndless(hops: number, what: string): void {
  if (hops <= HOPS_MAX) return;
  throw new StepwellError('SW_POOL_CORRUPT', `${what} lead on after ${HOPS_MAX} migrations`);
}

export interface DirectoryContent {
  nodes: number[];
  roots: RootName[];
}

export class PartitionDirectory {
  readonly root: Address;
  readonly #geometry: ShardGeometry;
  readonly #partitions: number;

  constructor(root: Address, geometry: ShardGeometry) {
    this.root = root;
    this.#geometry = geometry;
    this.#partitions = geometry.shape.partitions;
  }

  *read(): Operation<DirectoryContent> {
    const bytes = ROOTS + 8 * this.#partitions;
    const words = new Scratch(bytes);
    yield new Batch().read(this.root, bytes, words, 0);
    const mask = BigInt.asUintN(64, words.i64[NODES >> 3]);
    invariant(mask !== 0n, 'the directory of the tables names no memory node');
    const roots = Array.from({ length: this.#partitions }, (_, i) =>
      readInteger(words, ROOTS + 8 * i),
    );
    for (const one of roots) {
      invariant(Number.isSafeInteger(one), `no root has the name ${one}`);
      refuseNoRoot(rootNamed(one));
    }
    return { nodes: nodesIn(mask), roots };
  }

  /** Makes `name` the partition's root; does nothing if it already is. */
  *replaceRoot(partition: number, former: Address, name: RootName): Operation<void> {
    const before = nameAfter(name, -1, former);
    yield* control.swap(this.root + ROOTS + 8 * partition, BigInt(before), BigInt(name));
  }

  /** The first root of a partition is part of the directory. */
  isInDirectory(root: Address): boolean {
    return root > this.root && root < this.root + directoryBytes(this.#partitions);
  }

  /**
   * Changes which memory nodes the placement uses; moves nothing. Raises SW_CONTENTION if other
   * clients keep changing them.
   */
  *changeNodes(change: (nodes: readonly number[]) => readonly number[]): Operation<void> {
    for (let attempt = 0; attempt < CHANGES_MAX; attempt++) {
      const { nodes } = yield* this.read();
      const word = wordOf(change(nodes));
      if (yield* control.swap(this.root + NODES, wordOf(nodes), word)) return;
    }
    const why = `other clients changed the memory nodes of this store ${CHANGES_MAX} times`;
    throw new StepwellError('SW_CONTENTION', why);
  }

  /**
   * Sizes in bytes, by address, of the directory, the roots and all blocks of their segments,
   * including those that an unfinished migration is leaving.
   */
  *places(): Operation<Map<Address, number>> {
    const places = new Map<Address, number>();
    places.set(this.root, directoryBytes(this.#partitions));
    const { roots } = yield* this.read();
    for (const root of roots) {
      let hops = 0;
      for (let next = rootNamed(root); next !== NULL_ADDRESS; ) {
        refuseEndless(++hops, `the roots behind ${rootNamed(root)}`);
        const segments = new Segments(next, this.#geometry);
        yield* segments.load();
        this.#addPlaces(segments, places);
        if (segments.formerRoot !== NULL_ADDRESS && !places.has(segments.formerRoot)) {
          const former = new Segments(segments.formerRoot, this.#geometry);
          yield* former.load();
          this.#addPlaces(former, places);
        }
        next = segments.successor;
      }
    }
    return places;
  }

  #addPlaces(segments: Segments, places: Map<Address, number>): void {
    if (!this.isInDirectory(segments.root)) places.set(segments.root, ROOT_BYTES);
    for (const { address, units } of segments.blocks()) places.set(address, units * UNIT_BYTES);
  }

  /** Writes the directory of new tables, with the first roots that name these segments. */
  *write(nodes: readonly number[], segments: readonly Address[]): Operation<void> {
    const bytes = directoryBytes(this.#partitions);
    const image = new Scratch(bytes);
    image.i64[NODES >> 3] = BigInt.asIntN(64, wordOf(nodes));
    segments.forEach((first, partition) => {
      const at = firstRootAt(partition, this.#partitions);
      Segments.format(image, at, first);
      writeInteger(image, ROOTS + 8 * partition, this.root + at);
    });
    for (let at = 0; at < bytes; at += WRITE_BYTES) {
      yield new Batch().write(this.root + at, Math.min(WRITE_BYTES, bytes - at), image, at);
    }
  }
}

export function directoryBytes(partitions: number): number {
  return firstRootAt(partitions, partitions);
}

function firstRootAt(partition: number, partitions: number): number {
  const roots = Math.ceil((ROOTS + 8 * partitions) / UNIT_BYTES) * UNIT_BYTES;
  return roots + partition * ROOT_BYTES;
}

function nodesIn(mask: bigint): number[] {
  const all = Array.from({ length: NODES_MAX }, (_, node) => node);
  return all.filter((node) => ((mask >> BigInt(node)) & 1n) === 1n);
}

function wordOf(nodes: readonly number[]): bigint {
  return nodes.reduce((mask, node) => mask | (1n << BigInt(node)), 0n);
}

import { invariant, StepwellError } from '../../errors.ts';
import { control } from '../../pool/control.ts';
import { ANY_NODE } from '../../pool/memory/chunks.ts';
import type { Pool } from '../../pool/pool.ts';
import {
  type Address,
  Batch,
  NULL_ADDRESS,
  type Operation,
  readInteger,
  Scratch,
  UNIT_BYTES,
  writeInteger,
} from '../../verbs/index.ts';
import { RecordIo } from '../substrates/record-io.ts';
import { ShardGeometry } from './geometry.ts';
import type { ShardShape } from './parameters.ts';
import { Placement, partitionOf } from './placement.ts';
import { makeFirstSegment } from './resize.ts';
import { ROOT_BYTES, refuseNoRoot, Segments } from './segments.ts';
import {
  newTechniques,
  refuseEndless,
  type ShardRequest,
  ShardTable,
  type SharedParts,
} from './table.ts';

/**
 * What a store's root is: the directory of its tables, one for each partition of the keys.
 *
 *    0  the memory nodes of the placement, one bit each
 *   64  the root of each partition's table, 8 bytes each
 *       then the first roots themselves; when a table is migrated it gets another one
 *
 * The partition of a key never changes, and its table is on one memory node: all segments of it
 * are. `placement.ts` says on which it is to be, `migrate.ts` brings it there.
 */
const NODES = 0;
const ROOTS = 64;
/** The bits of a word. */
const NODES_MAX = 64;
const WRITE_BYTES = 32 * 1024;

/** Changes of the placement by others before this client's: people make them, by hand. */
const CHANGES_MAX = 1000;
/** Looks at all tables, each with migrations that others have finished meanwhile. */
const LOOKS_MAX = 1000;

/** What the directory says. */
export interface Directory {
  nodes: number[];
  roots: Address[];
}

/** One client's handle of all tables of an index. */
export class Partitions {
  readonly pool: Pool;
  readonly catalog: number;
  readonly geometry: ShardGeometry;
  readonly tables: readonly ShardTable[];
  /** The directory. */
  readonly root: Address;
  /** Migrations that had been counted when the tables' addresses were looked up. */
  #seen: number;

  private constructor(shared: SharedParts, root: Address, directory: Directory, seen: number) {
    const { pool, catalog, geometry } = shared;
    this.pool = pool;
    this.catalog = catalog;
    this.geometry = geometry;
    this.root = root;
    this.#seen = seen;
    this.tables = directory.roots.map(
      (one, partition) => new ShardTable(shared, partition, new Segments(one, geometry)),
    );
  }

  tableOf({ hash }: ShardRequest): ShardTable {
    const { tables } = this;
    return tables.length === 1 ? tables[0] : tables[partitionOf(hash, tables.length)];
  }

  /**
   * Whether the addresses that this client has of the tables are still theirs. A table that is
   * being migrated is met by what stands in its old place; when it has been, that place is given
   * up, and who goes by it must not look there any more: see Reclamation.migrations.
   */
  get isCurrent(): boolean {
    return this.#seen === this.pool.reclamation.migrations;
  }

  /** Looks the tables up again: one round trip, and more for each that has been migrated. */
  *refresh(): Operation<void> {
    const { migrations } = this.pool.reclamation;
    const { roots } = yield* this.read();
    for (const table of this.tables) {
      const root = roots[table.partition];
      const { segments } = table;
      if (root !== segments.root || segments.former !== undefined) yield* table.reload(root);
    }
    this.#seen = migrations;
  }

  *read(): Operation<Directory> {
    return yield* readDirectory(this.root, this.geometry.shape.partitions);
  }

  /** The root that a partition has for good from now on; nothing if it has it already. */
  *replaceRoot(partition: number, former: Address, root: Address): Operation<void> {
    yield* control.swap(this.root + ROOTS + 8 * partition, BigInt(former), BigInt(root));
  }

  /** The first root of a partition is part of the directory. */
  isInDirectory(root: Address): boolean {
    return root > this.root && root < this.root + directoryBytes(this.tables.length);
  }

  /**
   * Adds a memory node to those of the placement, or takes it from them; moves nothing. Raises
   * SW_CONTENTION when others are always faster.
   */
  *changeNodes(change: (nodes: readonly number[]) => readonly number[]): Operation<void> {
    for (let attempt = 0; attempt < CHANGES_MAX; attempt++) {
      const { nodes } = yield* this.read();
      const word = wordOf(change(nodes));
      if (yield* control.swap(this.root + NODES, wordOf(nodes), word)) return;
    }
    const why = `others have changed the memory nodes of this store ${CHANGES_MAX} times meanwhile`;
    throw new StepwellError('SW_CONTENTION', why);
  }

  /**
   * Where the directory and everything stands that the roots name: what a migration that is not
   * over yet has left, too. By address, in bytes.
   */
  *places(): Operation<Map<Address, number>> {
    const places = new Map<Address, number>();
    places.set(this.root, directoryBytes(this.tables.length));
    const { roots } = yield* this.read();
    for (const root of roots) {
      let hops = 0;
      for (let next = root; next !== NULL_ADDRESS; ) {
        refuseEndless(++hops, `the roots behind ${root}`);
        const segments = new Segments(next, this.geometry);
        yield* segments.load();
        this.#addPlaces(segments, places);
        if (segments.formerRoot !== NULL_ADDRESS && !places.has(segments.formerRoot)) {
          const former = new Segments(segments.formerRoot, this.geometry);
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

  /** Allocates and fills empty tables; returns the root for the catalog. */
  static *build(pool: Pool, shape: ShardShape, catalog: number): Operation<Address> {
    const { allocator, layout } = pool;
    const geometry = new ShardGeometry(shape, layout.parameters.regionBytes);
    const { partitions } = shape;
    if (layout.stripe > NODES_MAX && partitions > 1) {
      const limit = `tables are placed on at most ${NODES_MAX} memory nodes`;
      throw new StepwellError('SW_INVALID_ARGUMENT', limit);
    }
    const bytes = directoryBytes(partitions);
    const root = yield* allocator.spans.allocate(catalog, Math.ceil(bytes / UNIT_BYTES));
    const nodes = Array.from({ length: Math.min(layout.stripe, NODES_MAX) }, (_, node) => node);
    const image = new Scratch(bytes);
    image.i64[NODES >> 3] = BigInt.asIntN(64, wordOf(nodes));
    const placement = new Placement(nodes, partitions);
    for (let partition = 0; partition < partitions; partition++) {
      const node = nodes.length > 1 ? placement.nodeOf(partition) : ANY_NODE;
      const first = yield* makeFirstSegment(allocator, catalog, geometry, node);
      const at = firstRootAt(partition, partitions);
      Segments.format(image, at, first);
      writeInteger(image, ROOTS + 8 * partition, root + at);
    }
    for (let at = 0; at < bytes; at += WRITE_BYTES) {
      yield new Batch().write(root + at, Math.min(WRITE_BYTES, bytes - at), image, at);
    }
    return root;
  }

  static *open(
    pool: Pool,
    shape: ShardShape,
    catalog: number,
    root: Address,
  ): Operation<Partitions> {
    const { reclamation } = pool;
    const shared: SharedParts = {
      pool,
      catalog,
      geometry: new ShardGeometry(shape, pool.layout.parameters.regionBytes),
      records: new RecordIo(pool.allocator, reclamation, catalog),
      techniques: newTechniques(),
      partitions: () => partitions,
    };
    let partitions: Partitions;
    // Who opens a store may have announced no epoch, so what it reads may be given up meanwhile.
    const isMovable = pool.layout.stripe > 1;
    let now = isMovable ? yield* reclamation.readMigrations() : 0;
    for (let look = 0; look < LOOKS_MAX; look++) {
      const seen = now;
      const directory = yield* readDirectory(root, shape.partitions);
      partitions = new Partitions(shared, root, directory, seen);
      yield* ShardTable.loadAll(partitions.tables);
      if (isMovable) now = yield* reclamation.readMigrations();
      if (now === seen) return partitions;
    }
    const why = `others have migrated tables during each of ${LOOKS_MAX} looks at them`;
    throw new StepwellError('SW_CONTENTION', why);
  }
}

function directoryBytes(partitions: number): number {
  return firstRootAt(partitions, partitions);
}

function firstRootAt(partition: number, partitions: number): number {
  const roots = Math.ceil((ROOTS + 8 * partitions) / UNIT_BYTES) * UNIT_BYTES;
  return roots + partition * ROOT_BYTES;
}

function* readDirectory(root: Address, partitions: number): Operation<Directory> {
  const bytes = ROOTS + 8 * partitions;
  const words = new Scratch(bytes);
  yield new Batch().read(root, bytes, words, 0);
  const mask = BigInt.asUintN(64, words.i64[NODES >> 3]);
  invariant(mask !== 0n, 'the directory of the tables names no memory node');
  const roots = Array.from({ length: partitions }, (_, i) => readInteger(words, ROOTS + 8 * i));
  for (const one of roots) refuseNoRoot(one);
  return { nodes: nodesIn(mask), roots };
}

function nodesIn(mask: bigint): number[] {
  const all = Array.from({ length: NODES_MAX }, (_, node) => node);
  return all.filter((node) => ((mask >> BigInt(node)) & 1n) === 1n);
}

function wordOf(nodes: readonly number[]): bigint {
  return nodes.reduce((mask, node) => mask | (1n << BigInt(node)), 0n);
}

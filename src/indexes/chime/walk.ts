import { StepwellError } from '../../errors.ts';
import { HASH_PADDING, KeyHash } from '../../records/hash.ts';
import { type Operation, Scratch } from '../../verbs/index.ts';
import type { IndexWalk } from '../contract.ts';
import { LeafWalk } from './leaf-walk.ts';
import { mendWay } from './mend.ts';
import { ChimeScan } from './scan.ts';
import type { ChimeRequest, ChimeTree } from './tree.ts';

/**
 * A walk over all records is a scan from the lowest key. Its cursor is a number, and a key is none:
 * the cursor is a hash of the separator at which the walk goes on. Separators stay when leaves are
 * split, so any client finds it again, in its memory of the tree or in the tree.
 */
export class ChimeWalk implements IndexWalk {
  readonly #tree: ChimeTree;
  #scan: ChimeScan;
  /** A cursor whose separator has not been looked for yet; else 0. */
  #from: number;

  constructor(tree: ChimeTree, cursor: number) {
    this.#tree = tree;
    this.#from = cursor;
    this.#scan = new ChimeScan(tree, new Uint8Array(0));
  }

  get done(): boolean {
    return this.#scan.done;
  }

  get cursor(): number {
    const { position } = this.#scan;
    if (this.#from !== 0) return this.#from;
    return position === undefined ? 0 : cursorOf(this.#tree, position);
  }

  *next(visit: (request: ChimeRequest, keyBytes: number) => void): Operation<void> {
    if (this.#from !== 0) {
      const position = yield* findPosition(this.#tree, this.#from);
      if (position === undefined) throw noCursor(this.#from);
      this.#from = 0;
      this.#scan = new ChimeScan(this.#tree, position);
    }
    yield* this.#scan.next(visit);
  }
}

export function noCursor(cursor: unknown): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', `not a cursor of this store: ${cursor}`);
}

/** 52 bits of a hash of the key, and never 0. Empty only where a walk begins. */
function cursorOf(tree: ChimeTree, key: Uint8Array): number {
  if (key.length === 0) return 0;
  const words = new Scratch(key.length + 2 * HASH_PADDING);
  words.u8.set(key, 0);
  const hash = new KeyHash();
  hash.compute(words.i32, 0, key.length, tree.geometry.shape.seed);
  return (hash.h2 >>> 12) * 2 ** 32 + (hash.h3 >>> 0) + 1;
}

/** The separator that a cursor stands for: what this client remembers first, then the tree. */
function* findPosition(tree: ChimeTree, cursor: number): Operation<Uint8Array | undefined> {
  tree.cache.begin();
  const leaves = new LeafWalk(tree, new Uint8Array(0));
  while (leaves.position !== undefined) {
    if (cursorOf(tree, leaves.position) === cursor) return leaves.position;
    yield* leaves.skip();
  }
  tree.cache.forget();
  const fresh = new LeafWalk(tree, new Uint8Array(0));
  while (fresh.position !== undefined) {
    const { position } = fresh;
    if (cursorOf(tree, position) === cursor) return position;
    // A leaf that was split may not be linked in two yet.
    yield* mendWay(tree, { u8: position, at: 0, bytes: position.length }, -1);
    yield* fresh.skip();
  }
  return undefined;
}

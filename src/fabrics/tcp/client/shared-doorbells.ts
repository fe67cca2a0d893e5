import {
  Batch,
  type Completion,
  type Operation,
  PAUSE,
  type RemoteFabric,
  runRemote,
} from '../../../verbs/index.ts';
import { requestBytes, resultBytes, shapeFor } from '../wire.ts';
import { nodeOf } from './flight.ts';
import type { TcpFabric } from './tcp-fabric.ts';

/** A batch posted by one of the operations. */
interface Posted {
  readonly node: number;
  readonly batch: Batch;
  readonly completion: Completion;
}

/**
 * Runs several operations of a client in step, so that they share doorbells: what they post within
 * one turn of the event loop leaves as one batch for each node. The operations are independent, so
 * any order of their verbs is right; the shared batch keeps the order within each of them.
 *
 * A node refuses a frame as a whole, before it executes any of its verbs: when one of them names
 * memory that is not there, because the pool is damaged. So a shared batch never exceeds a frame.
 * When it is refused, each operation's batch is posted by itself, and only the bad one fails.
 */
export class SharedDoorbells implements RemoteFabric {
  readonly #fabric: TcpFabric;
  readonly #budgets: readonly number[];
  readonly #flush = () => this.#postAll();
  #posted: Posted[] = [];

  constructor(fabric: TcpFabric) {
    this.#fabric = fabric;
    this.#budgets = fabric.welcomes.map(({ frameBytesMax }, node) => {
      return shapeFor(node, fabric.nodes, frameBytesMax).budget;
    });
  }

  get traffic() {
    return this.#fabric.traffic;
  }

  /** Runs one of the operations to its end. */
  run<T>(operation: Operation<T>): Promise<T> {
    return runRemote(this, operation);
  }

  post(batch: Batch, completion: Completion): void {
    const node = this.#nodeOf(batch);
    if (node === undefined) {
      this.#fabric.post(batch, completion);
      return;
    }
    // What the others post before this runs goes along.
    if (this.#posted.length === 0) queueMicrotask(this.#flush);
    this.#posted.push({ node, batch, completion });
  }

  /** The only node of a batch that can be shared. */
  #nodeOf({ isWaitedFor, kind, address, length }: Batch): number | undefined {
    if (!isWaitedFor || length === 0 || !this.#fabric.keepsOrder) return undefined;
    const node = nodeOf(address[0], this.#fabric.nodes);
    for (let row = 0; row < length; row++) {
      if (kind[row] >= PAUSE) return undefined;
      if (nodeOf(address[row], this.#fabric.nodes) !== node) return undefined;
    }
    return node;
  }

  #postAll(): void {
    const posted = this.#posted;
    this.#posted = [];
    for (let node = 0; node < this.#fabric.nodes; node++) {
      let shared: Posted[] = [];
      let room = this.#budgets[node];
      for (const one of posted) {
        if (one.node !== node) continue;
        const bytes = frameBytesOf(one.batch);
        if (bytes > room && shared.length > 0) {
          this.#postShared(shared);
          shared = [];
          room = this.#budgets[node];
        }
        shared.push(one);
        room -= bytes;
      }
      if (shared.length > 0) this.#postShared(shared);
    }
  }

  #postShared(shared: readonly Posted[]): void {
    if (shared.length === 1) {
      this.#fabric.post(shared[0].batch, shared[0].completion);
      return;
    }
    const all = new Batch();
    for (const { batch } of shared) all.append(batch);
    this.#fabric.post(all, { completed: (error) => this.#completed(shared, error) });
  }

  #completed(shared: readonly Posted[], error: unknown): void {
    const wasRefused = error !== undefined && this.#fabric.failure === undefined;
    for (const { batch, completion } of shared) {
      if (wasRefused) this.#fabric.post(batch, completion);
      else completion.completed(error);
    }
  }
}

/** No less than the batch takes of a frame, and of the frame that answers it. */
function frameBytesOf({ kind, bytes, length }: Batch): number {
  let [request, results] = [0, 0];
  for (let row = 0; row < length; row++) {
    request += 8 + requestBytes(kind[row], bytes[row]);
    results += resultBytes(kind[row], bytes[row]);
  }
  return Math.max(request, results);
}

import type { UcxContext } from './context.ts';
import { BUSY, type Handle, IN_PROGRESS, OK, succeed, type UcxLibrary } from './library.ts';
import {
  CLOSE_BY_FORCE,
  ENDPOINT,
  ENDPOINT_FIELDS,
  ERRORS_OF_PEER,
  Pinned,
  REQUEST,
  REQUEST_FLAGS,
  WORKER,
  WORKER_FIELDS,
  WORKER_IGNORES_LEAKS,
} from './structs.ts';

/** Closing by force waits for nobody; the library needs a few turns for it. */
const CLOSING_TURNS_MAX = 10_000;

/**
 * A set of transports with an address. Everything happens in `progress`, in the thread that made
 * it. Closing a worker ends all access to memory through it: that is how a session is revoked.
 */
export class UcxWorker {
  readonly ucx: UcxLibrary;
  readonly handle: Handle;
  /** Readable when an armed worker has something to do. */
  readonly descriptor: number;

  /** Raises SW_UNSUPPORTED when the system has no descriptors left. */
  constructor(context: UcxContext) {
    const { ucx } = context;
    this.ucx = ucx;
    const out = new Pinned(ucx, 16 + WORKER.bytes)
      .word(16 + WORKER.mask, WORKER_FIELDS)
      .word(16 + WORKER.flags, WORKER_IGNORES_LEAKS);
    const status = ucx.workerCreate(context.handle, out.address + 16, out.address);
    succeed(ucx, status, 'make a worker (are there descriptors left, ulimit -n?)');
    this.handle = out.read(0);
    try {
      succeed(ucx, ucx.workerGetEfd(this.handle, out.address + 8), 'wait for a worker');
    } catch (error) {
      this.close();
      throw error;
    }
    this.descriptor = out.view.getInt32(8, true);
  }

  /** What another process needs to connect. */
  get address(): Uint8Array {
    const { ucx } = this;
    const out = new Pinned(ucx, 16);
    const status = ucx.workerGetAddress(this.handle, out.address, out.address + 8);
    succeed(ucx, status, 'tell the address of a worker');
    const address = ucx.copyFrom(out.read(0), out.read(8));
    ucx.workerReleaseAddress(this.handle, out.read(0));
    return address;
  }

  /** Does what there is to do; returns how much it was. */
  progress(): number {
    return this.ucx.workerProgress(this.handle);
  }

  /** Whether the descriptor will tell of what comes next; false when something is there already. */
  arm(): boolean {
    const status = this.ucx.workerArm(this.handle);
    if (status !== BUSY) succeed(this.ucx, status, 'arm a worker');
    return status === OK;
  }

  /** Makes the descriptor readable. */
  signal(): void {
    this.ucx.workerSignal(this.handle);
  }

  /** Ends all of its endpoints, whatever is under way on them. */
  close(): void {
    this.ucx.workerDestroy(this.handle);
  }
}

/** A client's queue pair to one worker of a node. It ends with the client's own worker. */
export class UcxEndpoint {
  readonly handle: Handle;
  readonly #ucx: UcxLibrary;
  readonly #worker: UcxWorker;
  readonly #keys: Handle[] = [];
  /** A request without options. */
  readonly #plain: Pinned;

  /** Raises SW_UNSUPPORTED when this machine has no transport that reaches the address. */
  constructor(worker: UcxWorker, address: Uint8Array) {
    const { ucx } = worker;
    this.#ucx = ucx;
    this.#worker = worker;
    const to = 8 + ENDPOINT.bytes;
    const out = new Pinned(ucx, to + address.length)
      .word(8 + ENDPOINT.mask, ENDPOINT_FIELDS)
      .half(8 + ENDPOINT.errorMode, ERRORS_OF_PEER);
    out.word(8 + ENDPOINT.address, out.address + to).u8.set(address, to);
    const status = ucx.epCreate(worker.handle, out.address + 8, out.address);
    succeed(ucx, status, 'reach the memory node by its transport from this machine');
    this.handle = out.read(0);
    this.#plain = new Pinned(ucx, REQUEST.bytes);
  }

  /** Takes a key that a node has packed. */
  unpackKey(key: Uint8Array): Handle {
    const out = new Pinned(this.#ucx, 8 + key.length);
    out.u8.set(key, 8);
    const status = this.#ucx.rkeyUnpack(this.handle, out.address + 8, out.address);
    succeed(this.#ucx, status, 'use the remote key of a memory node');
    this.#keys.push(out.read(0));
    return out.read(0);
  }

  /** Where a request without options stands. */
  get plainRequest(): Handle {
    return this.#plain.address;
  }

  /**
   * Ends whatever is under way on it, which the library does not do when its worker is closed, and
   * gives up its keys. Call before that.
   */
  close(): void {
    const request = this.#plain
      .half(REQUEST.mask, REQUEST_FLAGS)
      .half(REQUEST.flags, CLOSE_BY_FORCE);
    const pending = this.#ucx.epClose(this.handle, request.address);
    if (pending > 0) {
      for (let turn = 0; turn < CLOSING_TURNS_MAX; turn++) {
        if (this.#ucx.requestStatus(pending) !== IN_PROGRESS) break;
        this.#worker.progress();
      }
      this.#ucx.requestFree(pending);
    }
    for (const key of this.#keys.splice(0)) this.#ucx.rkeyDestroy(key);
  }
}

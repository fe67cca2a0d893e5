import type { Handle, UcxLibrary } from './library.ts';

/**
 * Memory that the library reads or writes by its address. It is outside the JavaScript heap, where
 * small typed arrays may move, and lives while this object is reachable. An address alone does not
 * keep it: a call's arguments share an object with its results, or are in a field.
 */
export class Pinned {
  readonly u8: Uint8Array;
  readonly view: DataView;
  readonly address: Handle;

  constructor(ucx: UcxLibrary, bytes: number) {
    const memory = new ArrayBuffer(bytes);
    this.u8 = new Uint8Array(memory);
    this.view = new DataView(memory);
    this.address = ucx.addressOf(this.u8);
  }

  /** Sets a field of 32 bits. */
  half(at: number, value: number): this {
    this.view.setUint32(at, value, true);
    return this;
  }

  /** Sets a field of 64 bits. */
  word(at: number, value: number): this {
    this.view.setUint32(at, value % 2 ** 32, true);
    this.view.setUint32(at + 4, Math.floor(value / 2 ** 32), true);
    return this;
  }

  /** A field of 64 bits that the library has set: a handle or a size. */
  read(at: number): number {
    return Number(this.view.getBigUint64(at, true));
  }
}

/**
 * Structures of ucp.h 1.13 on machines of 64 bits: bytes, and where fields stand. Later versions of
 * the interface keep them: each structure begins with a mask of the fields that are set.
 */
export const CONTEXT = { bytes: 80, mask: 0, features: 8, requestInit: 24 } as const;
export const CONTEXT_FACTS = { bytes: 64, mask: 0, requestBytes: 8 } as const;
export const WORKER = { bytes: 200, mask: 0, threadMode: 8, flags: 168 } as const;
export const ENDPOINT = { bytes: 104, mask: 0, address: 8, errorMode: 16 } as const;
export const MEMORY = { bytes: 40, mask: 0, address: 8, length: 16 } as const;
export const REQUEST = { bytes: 72, mask: 0, flags: 4, datatype: 24, replyBuffer: 40 } as const;

/** One-sided verbs, 64-bit atomics, and a descriptor to wait for. */
export const FEATURES = (1 << 1) | (1 << 3) | (1 << 4);
export const CONTEXT_FEATURES = 1;
export const CONTEXT_REQUEST_INIT = 1 << 2;
export const FACTS_REQUEST_BYTES = 1;
/** The thread mode, which stays 0 (one thread), and the flags. */
export const WORKER_FIELDS = 1 | (1 << 5);
/** Requests that were given up with their endpoint are no error. */
export const WORKER_IGNORES_LEAKS = 1;
export const ENDPOINT_FIELDS = 1 | 2;
export const ERRORS_OF_PEER = 1;
export const MEMORY_FIELDS = 1 | 2;
/** Data type and reply buffer of an atomic. */
export const REQUEST_ATOMIC = (1 << 3) | (1 << 5);
export const REQUEST_FLAGS = 1 << 4;
/** Ends what is under way on an endpoint instead of waiting for it. */
export const CLOSE_BY_FORCE = 1;
/** `ucp_dt_make_contig(8)`. */
export const WORDS_OF_8 = 8 << 3;
export const ATOMIC_ADD = 0;
export const ATOMIC_COMPARE_SWAP = 2;

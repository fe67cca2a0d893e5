import type { Transports } from '../transports.ts';
import { type Handle, succeed, type UcxLibrary } from './library.ts';
import {
  CONTEXT,
  CONTEXT_FACTS,
  CONTEXT_FEATURES,
  CONTEXT_REQUEST_INIT,
  FACTS_REQUEST_BYTES,
  FEATURES,
  MEMORY,
  MEMORY_FIELDS,
  Pinned,
} from './structs.ts';

/** The version of the header that defines the structures, for `ucp_init_version`. */
const HEADER_MAJOR = 1;
const HEADER_MINOR = 13;
const TOLD_AT = 64;

/**
 * One opening of the library, with the devices and transports that it may use.
 *
 * A callback zeroes each request. UCX (1.13) never sets the data type of the requests by which it
 * answers others' verbs. It reads the type when it discards an answer, because a worker is
 * destroyed or the client is gone. Garbage there would end a node with a segmentation fault. The
 * memory of a request is the `request_size` bytes in front of what the library hands out.
 */
export class UcxContext {
  readonly ucx: UcxLibrary;
  readonly handle: Handle;
  /** Results of calls, followed by their arguments. */
  readonly #out: Pinned;
  readonly #clearer: ReturnType<UcxLibrary['clearer']>;
  #requestBytes = 0;

  /** Raises SW_UNSUPPORTED when no device has these transports. */
  constructor(ucx: UcxLibrary, transports: Transports) {
    this.ucx = ucx;
    this.#clearer = ucx.clearer(() => this.#requestBytes);
    this.#out = new Pinned(ucx, TOLD_AT + CONTEXT.bytes);
    const out = this.#out;
    let handle: Handle | undefined;
    try {
      handle = this.#init(transports);
      this.handle = handle;
      out.word(TOLD_AT + CONTEXT_FACTS.mask, FACTS_REQUEST_BYTES);
      succeed(ucx, ucx.contextQuery(handle, out.address + TOLD_AT), 'tell of itself');
      this.#requestBytes = out.read(TOLD_AT + CONTEXT_FACTS.requestBytes);
    } catch (error) {
      if (handle !== undefined) ucx.cleanup(handle);
      this.#clearer.release();
      throw error;
    }
  }

  #init(transports: Transports): Handle {
    const { ucx } = this;
    const out = this.#out;
    succeed(ucx, ucx.configRead(0, 0, out.address), 'read its configuration');
    const config = out.read(0);
    try {
      for (const [name, value] of Object.entries(settingsFor(transports))) {
        succeed(ucx, ucx.configModify(config, name, value), `set ${name} to ${value}`);
      }
      out.word(TOLD_AT + CONTEXT.mask, CONTEXT_FEATURES | CONTEXT_REQUEST_INIT);
      out.word(TOLD_AT + CONTEXT.requestInit, this.#clearer.address);
      out.word(TOLD_AT + CONTEXT.features, FEATURES);
      const address = out.address + TOLD_AT;
      const { names, device } = transports;
      const what = `use transport ${names}${device ? ` on device ${device}` : ''} (ucx_info -d)`;
      succeed(ucx, ucx.initVersion(HEADER_MAJOR, HEADER_MINOR, address, config, out.address), what);
      return out.read(0);
    } finally {
      ucx.configRelease(config);
    }
  }

  /** Registers memory. The caller must keep the bytes reachable until `release`. */
  register(bytes: ArrayBufferView): Registration {
    const { ucx } = this;
    const address = ucx.addressOf(bytes);
    const out = this.#out
      .word(TOLD_AT + MEMORY.mask, MEMORY_FIELDS)
      .word(TOLD_AT + MEMORY.address, address)
      .word(TOLD_AT + MEMORY.length, bytes.byteLength);
    const what = `register ${bytes.byteLength} bytes (is ulimit -l large enough?)`;
    succeed(ucx, ucx.memMap(this.handle, out.address + TOLD_AT, out.address), what);
    return new Registration(this, out.read(0), address, bytes.byteLength);
  }

  close(): void {
    this.ucx.cleanup(this.handle);
    this.#clearer.release();
  }
}

/**
 * One transport and one rail, which keep the order of verbs. The control connection notices when
 * processes and connections end, so the library sends no keepalives.
 */
function settingsFor({ names, device, atomics }: Transports): Record<string, string> {
  return {
    TLS: names,
    ...(device === undefined ? {} : { NET_DEVICES: device }),
    ATOMIC_MODE: atomics,
    MAX_EAGER_RAILS: '1',
    MAX_RNDV_RAILS: '1',
    PROTO_ENABLE: 'n',
    KEEPALIVE_INTERVAL: 'inf',
  };
}

/** Registered memory, which holders of its key can reach until it is released. */
export class Registration {
  readonly address: Handle;
  readonly bytes: number;
  readonly #context: UcxContext;
  readonly #handle: Handle;

  constructor(context: UcxContext, handle: Handle, address: Handle, bytes: number) {
    this.#context = context;
    this.#handle = handle;
    this.address = address;
    this.bytes = bytes;
  }

  /** The key with which another process reaches the memory. */
  packKey(): Uint8Array {
    const { ucx, handle } = this.#context;
    const out = new Pinned(ucx, 16);
    const status = ucx.rkeyPack(handle, this.#handle, out.address, out.address + 8);
    succeed(ucx, status, 'pack a remote key');
    const key = ucx.copyFrom(out.read(0), out.read(8));
    ucx.rkeyBufferRelease(out.read(0));
    return key;
  }

  release(): void {
    const { ucx, handle } = this.#context;
    ucx.memUnmap(handle, this.#handle);
  }
}

import { loadKoffi } from '../../shared/libc.ts';

const EFD_NONBLOCK = 0o4000;
const EFD_CLOEXEC = 0o2000000;

/** Wakes a thread by a descriptor while it is in `poll`, otherwise by a count that it checks. */
export class Bell {
  /** To be passed to the other thread. */
  readonly memory: SharedArrayBuffer;
  readonly descriptor: number;
  readonly #words: Int32Array;
  readonly #one = new Uint8Array(new ArrayBuffer(8));
  readonly #write: (fd: number, from: Uint8Array, bytes: number) => number;
  readonly #read: (fd: number, to: Uint8Array, bytes: number) => number;
  readonly #close: (fd: number) => number;
  #heard = 0;

  constructor(memory?: SharedArrayBuffer) {
    const libc = loadKoffi('ucx: pools').load(null);
    this.#write = libc.func('int64_t write(int, void *, size_t)');
    this.#read = libc.func('int64_t read(int, void *, size_t)');
    this.#close = libc.func('int close(int)');
    this.memory = memory ?? new SharedArrayBuffer(8);
    this.#words = new Int32Array(this.memory);
    this.#one[0] = 1;
    if (memory === undefined) {
      this.#words[1] = libc.func('int eventfd(uint, int)')(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    this.descriptor = this.#words[1];
  }

  ring(): void {
    Atomics.add(this.#words, 0, 1);
    this.#write(this.descriptor, this.#one, 8);
  }

  /** Whether it has rung since the last call. */
  hasRung(): boolean {
    const rung = Atomics.load(this.#words, 0);
    if (rung === this.#heard) return false;
    this.#heard = rung;
    this.#read(this.descriptor, new Uint8Array(new ArrayBuffer(8)), 8);
    return true;
  }

  /** Call after the other thread has ended. */
  close(): void {
    this.#close(this.descriptor);
  }
}

import { ftruncateSync, readFileSync, readlinkSync, statSync } from 'node:fs';

// biome-ignore lint/suspicious/noExplicitAny: koffi's function type is untyped by nature
export type Foreign = any;

/** By this name the threads of a process find the table among the process's mappings. */
const NAME = 'stepwell-ranges-2';
const LINE = new RegExp(`^([0-9a-f]+)-\\S+ rw-s .* /memfd:${NAME} `, 'gm');
/** Further ranges are not noted: they stay when their thread is terminated. */
const ENTRIES = 4096;
/**
 * Columns of words: the owner's thread id (0: free), then addresses, then lengths. Behind them, how
 * many entries have ever been in use.
 */
const USED = 3 * ENTRIES;
const TABLE_BYTES = 8 * (USED + 1);
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MFD_CLOEXEC = 1;

/** Where a range is noted. */
export interface RangeNote {
  readonly table: BigInt64Array;
  readonly entry: number;
}

/**
 * Which thread has mapped which addresses. A thread that is terminated unmaps nothing, and nothing
 * of it is run, so the next thread of the process that maps a pool does that. Threads know nothing
 * of one another; what they share is their addresses, so the table is found in /proc/self/maps.
 *
 * A thread can be terminated between any two steps. So a note is erased before its range is
 * unmapped: addresses are left behind then, where else others' would be unmapped.
 */
export class ThreadRanges {
  /** Two threads that begin at once make a table each. Tables stay as long as the process. */
  readonly #tables: BigInt64Array[];
  readonly #self: bigint;

  private constructor(tables: BigInt64Array[], self: bigint) {
    this.#tables = tables;
    this.#self = self;
  }

  /** Undefined where the system does not tell of threads, or gives no memory for a table. */
  static find(libc: Foreign, koffi: Foreign): ThreadRanges | undefined {
    try {
      const self = BigInt(readlinkSync('/proc/thread-self').split('/')[2]);
      const lines = [...readFileSync('/proc/self/maps', 'latin1').matchAll(LINE)];
      const addresses = lines.map(([, address]) => BigInt(`0x${address}`));
      if (addresses.length === 0) addresses.push(newTable(libc, koffi));
      const tables = addresses.map((at) => new BigInt64Array(koffi.view(at, TABLE_BYTES)));
      return new ThreadRanges(tables, self);
    } catch {
      return undefined;
    }
  }

  /** Undefined when the table is full. */
  note(address: bigint, bytes: number): RangeNote | undefined {
    const [table] = this.#tables;
    for (let entry = 0; entry < ENTRIES; entry++) {
      // All entries before this one are in use, so the count is at least `entry`.
      Atomics.compareExchange(table, USED, BigInt(entry), BigInt(entry + 1));
      if (Atomics.compareExchange(table, entry, 0n, this.#self) !== 0n) continue;
      Atomics.store(table, 2 * ENTRIES + entry, BigInt(bytes));
      Atomics.store(table, ENTRIES + entry, address);
      return { table, entry };
    }
    return undefined;
  }

  /** Hands over the ranges of threads that have ended; no other thread gets the same. */
  *takeAbandoned(): Generator<{ address: bigint; bytes: number }> {
    const ended = new Map<bigint, boolean>([
      [0n, false],
      [this.#self, false],
    ]);
    for (const table of this.#tables) {
      const used = Number(Atomics.load(table, USED));
      for (let entry = 0; entry < used; entry++) {
        const owner = Atomics.load(table, entry);
        if (!ended.has(owner)) ended.set(owner, hasEnded(owner));
        if (!ended.get(owner)) continue;
        // Thread ids come round after thousands: no new thread has this one already.
        if (Atomics.compareExchange(table, entry, owner, this.#self) !== owner) continue;
        const address = Atomics.load(table, ENTRIES + entry);
        const bytes = Number(Atomics.load(table, 2 * ENTRIES + entry));
        erase({ table, entry });
        // Terminated in the middle of a note.
        if (address !== 0n) yield { address, bytes };
      }
    }
  }
}

export function erase({ table, entry }: RangeNote): void {
  Atomics.store(table, ENTRIES + entry, 0n);
  Atomics.store(table, entry, 0n);
}

function newTable(libc: Foreign, koffi: Foreign): bigint {
  const fd = libc.func('int memfd_create(const char *, unsigned int)')(NAME, MFD_CLOEXEC);
  const mmap = libc.func('void *mmap(void *, size_t, int, int, int, int64_t)');
  try {
    ftruncateSync(fd, TABLE_BYTES);
    const at = mmap(null, TABLE_BYTES, PROT_READ_WRITE, MAP_SHARED, fd, 0);
    return koffi.address(at);
  } finally {
    // Not by Node, which warns of a descriptor that it has not opened.
    libc.func('int close(int)')(fd);
  }
}

/** A thread has ended only if the system says so; an unmounted /proc proves nothing. */
function hasEnded(tid: bigint): boolean {
  try {
    statSync(`/proc/self/task/${tid}`);
    return false;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return false;
  }
  try {
    process.kill(Number(tid), 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

import type { IndexName } from '../../src/store/api.ts';
import type { Plan } from './plan.ts';
import { boundOf, type SharedStore, UNREACHED, withStore } from './shared-store.ts';
import { sizesOf } from './tasks.ts';

const POOL_BYTES = 24 * 2 ** 20;
/** Bytes of the values in each phase. */
const PHASES = ['100', '1000', '60,100,180,300,500,800,1300,2100,3400,5500', '100'];

interface Row {
  index: IndexName;
  sizes: string;
  held: number;
  fresh: number;
  tables: number;
  freshTables: number;
  evictions: number;
  refused: number;
}

interface Held {
  bytes: number;
  tables: number;
}

/**
 * How much a full store holds after its records have changed in size. Each phase overwrites the
 * whole store once, and is compared with a fresh store filled with records of the same sizes.
 */
export async function sizes({ indexes }: Plan): Promise<Row[]> {
  const rows: Row[] = [];
  console.log('Records that change in size: what the store holds, beside a fresh one');
  console.log(
    'index      bytes of a value    held MiB   fresh MiB   share  tables MiB   fresh  refused',
  );
  for (const index of indexes) {
    const fresh = new Map<string, Held>();
    for (const phase of new Set(PHASES)) fresh.set(phase, await filled(index, phase));
    await withStore(index, 1, { size: POOL_BYTES, ...UNREACHED }, async (shared) => {
      let from = 0;
      for (const phase of PHASES) {
        const beside = fresh.get(phase) as Held;
        const count = Math.ceil(beside.bytes / meanBlock(phase));
        const before = boundOf(shared).evictions;
        const task = { kind: 'write', from, count, sizes: phase, timed: false } as const;
        const { refused } = await shared.crew.one(0, task);
        from += count;
        const { bytes, tables } = held(shared);
        const evictions = boundOf(shared).evictions - before;
        const row = {
          index,
          sizes: phase,
          held: bytes,
          fresh: beside.bytes,
          tables,
          evictions,
          refused,
        };
        rows.push({ ...row, freshTables: beside.tables });
        console.log(lineOf(rows[rows.length - 1]));
      }
    });
  }
  return rows;
}

/** Fills a fresh store with such records until it evicts, and returns what it holds. */
function filled(index: IndexName, phase: string): Promise<Held> {
  return withStore(index, 1, { size: POOL_BYTES, ...UNREACHED }, async (shared) => {
    let from = 0;
    const count = Math.ceil(POOL_BYTES / meanBlock(phase) / 16);
    for (; boundOf(shared).evictions === 0; from += count) {
      await shared.crew.one(0, { kind: 'write', from, count, sizes: phase, timed: false });
    }
    return held(shared);
  });
}

function held(shared: SharedStore): Held {
  const { memory } = shared.store.stats();
  return { bytes: boundOf(shared).bytes, tables: memory.subtables + memory.directory };
}

/** Average bytes of a record's blocks, with header, key and padding. */
function meanBlock(phase: string): number {
  const blocks = sizesOf(phase).map((bytes) => 64 * Math.ceil((bytes + 24) / 64));
  return blocks.reduce((sum, bytes) => sum + bytes, 0) / blocks.length;
}

function lineOf({ index, sizes, held, fresh, tables, freshTables, refused }: Row): string {
  const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);
  const what = sizes.includes(',') ? 'ten sizes' : sizes;
  const columns = [mib(held), mib(fresh), (held / fresh).toFixed(2), mib(tables), mib(freshTables)];
  const widths = [12, 12, 8, 12, 8];
  const shown = columns.map((column, i) => column.padStart(widths[i])).join('');
  return index.padEnd(11) + what.padEnd(16) + shown + String(refused).padStart(9);
}

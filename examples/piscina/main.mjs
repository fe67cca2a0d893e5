// A pool of threads that share one table. Each thread adds a few KiB, because nothing is copied.
import { Piscina } from 'piscina';
import { openSync } from 'stepwell';

const RECORDS = Number(process.env.RECORDS ?? 1_000_000);
const THREADS = Number(process.env.WORKERS ?? 4);
const TASKS = 64;

const table = openSync('memory:', { size: 2 ** 30 });
const began = performance.now();
for (let first = 0; first < RECORDS; first += 1000) {
  const ids = Array.from({ length: Math.min(1000, RECORDS - first) }, (_, i) => first + i);
  table.setMany(ids.map((id) => [`user:${id}`, `name of ${id}`]));
}
const loadMs = Math.round(performance.now() - began);

const pool = new Piscina({
  filename: new URL('./worker.mjs', import.meta.url).href,
  workerData: table.handle, // a memory: pool has no name, so pass its handle
  minThreads: THREADS,
  maxThreads: THREADS,
});
const tasks = Array.from({ length: TASKS }, (_, seed) =>
  pool.run({ seed, lookups: Math.ceil(RECORDS / TASKS), records: RECORDS }),
);
const answers = await Promise.all(tasks);
const found = answers.reduce((sum, answer) => sum + answer.found, 0);
const lookups = Number(table.get('lookups'));
const threads = new Set(answers.map(({ thread }) => thread)).size;
console.log(JSON.stringify({ records: RECORDS, loadMs, threads, lookups, found }));
await pool.destroy();
table.close();

// Several processes work off a queue; one of them is killed with jobs in its hands.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { destroySync, openSync } from 'stepwell';
import { queue } from 'stepwell/helpers';

const WORKERS = Number(process.env.WORKERS ?? 3);
const JOBS = Number(process.env.JOBS ?? 3_000);
const [role, url = `shm:example-jobs-${process.pid}`] = process.argv.slice(2);

const store = openSync(url, { store: 'jobs', index: 'chime' });
const results = openSync(url, { store: 'results' });
const jobs = queue(store, 'squares');

if (role !== undefined) process.on('disconnect', () => process.exit());
if (role === 'doomed') {
  await jobs.takeMany(10);
  process.send('taken');
  await new Promise(() => setInterval(() => {}, 1000));
}
if (role === 'worker') {
  for (;;) {
    for (const job of await jobs.takeMany(10)) {
      results.set(`${job.data}`, `${job.data ** 2}`); // idempotent
      if (await job.complete()) results.increment('done');
    }
  }
}

for (let i = 0; i < JOBS; i++) await jobs.add(i, { priority: i % 3 });
const start = (task) => fork(import.meta.filename, [task, url]);
const doomed = start('doomed');
await once(doomed, 'message');
doomed.kill('SIGKILL');
await once(doomed, 'exit');
const workers = Array.from({ length: WORKERS }, () => start('worker'));
while (Number(results.get('done') ?? 0) < JOBS) await new Promise((go) => setTimeout(go, 10));

const { waiting, delayed, active, dead } = await jobs.counts();
const left = waiting + delayed + active + dead;
for (const worker of workers) worker.kill('SIGKILL');
await Promise.all(workers.map((worker) => once(worker, 'exit')));
const done = Number(results.get('done'));
console.log(JSON.stringify({ jobs: JOBS, done, results: results.size - 1, left }));
store.close();
results.close();
destroySync(url);

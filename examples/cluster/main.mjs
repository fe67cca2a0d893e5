// Express workers with node:cluster. Each worker opens the pool by its name.
import cluster from 'node:cluster';
import { once } from 'node:events';
import { destroySync } from 'stepwell';
import { createApp } from './app.mjs';
import { visit } from './visitor.mjs';

const WORKERS = Number(process.env.WORKERS ?? 3);

if (cluster.isPrimary) {
  const url = `shm:example-cluster-${process.pid}`;
  const workers = Array.from({ length: WORKERS }, () => cluster.fork({ POOL: url }));
  const ports = workers.map(async (worker) => (await once(worker, 'listening'))[0].port);
  const [port] = await Promise.all(ports);
  console.log(JSON.stringify(await visit(`http://127.0.0.1:${port}`)));
  for (const worker of workers) worker.kill();
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  destroySync(url);
} else {
  createApp(process.env.POOL).listen(0, '127.0.0.1');
}

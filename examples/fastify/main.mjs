// Two processes under load. An article that many requests in both ask for is loaded once.
import cluster from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import fastify from 'fastify';
import { destroySync, openSync } from 'stepwell';
import { getOrSet } from 'stepwell/helpers';

const WORKERS = Number(process.env.WORKERS ?? 2);
const REQUESTS = Number(process.env.REQUESTS ?? 500);
const ARTICLES = 10;

if (cluster.isPrimary) {
  const url = `shm:example-fastify-${process.pid}`;
  const workers = Array.from({ length: WORKERS }, () => cluster.fork({ POOL: url }));
  const ports = workers.map(async (worker) => (await once(worker, 'listening'))[0].port);
  const [port] = await Promise.all(ports);
  const asked = Array.from({ length: REQUESTS }, async (_, i) => {
    const options = { headers: { connection: 'close' } };
    const answer = await fetch(`http://127.0.0.1:${port}/articles/${i % ARTICLES}`, options);
    return (await answer.json()).worker;
  });
  const answeredBy = new Set(await Promise.all(asked));
  const store = openSync(url, { store: 'articles', values: 'json' });
  const loads = store.get('loads');
  console.log(
    JSON.stringify({ requests: REQUESTS, articles: ARTICLES, loads, workers: answeredBy.size }),
  );
  store.close();
  for (const worker of workers) worker.kill();
  await Promise.all(workers.map((worker) => once(worker, 'exit')));
  destroySync(url);
} else {
  const store = openSync(process.env.POOL, { store: 'articles', values: 'json' });
  const app = fastify();

  /** Stands for a slow database. */
  async function load(id) {
    store.increment('loads');
    await pause(50);
    return { id, title: `Article ${id}` };
  }

  app.get('/articles/:id', async ({ params: { id } }) => {
    const article = await getOrSet(store, `article:${id}`, () => load(id), { ttlMs: 60_000 });
    return { ...article, worker: process.pid };
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
}

// Two processes share a store on a memory node. On several machines only the address differs.
import { fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { open } from 'stepwell';

const [role, url] = process.argv.slice(2);

if (role === 'client') {
  const store = await open(`${url}/shared`, { values: 'json' });
  const jobs = Array.from({ length: 100 }, (_, i) => `job:${i}`);
  const done = await Promise.all(jobs.map((job) => store.insert(job, { by: process.pid })));
  await store.increment('done', done.filter(Boolean).length); // each job is taken once
  await store.close();
} else {
  // npx stepwell memory-node --listen 127.0.0.1:0 --size 64m
  const cli = fileURLToPath(new URL('./cli/main.js', import.meta.resolve('stepwell')));
  const words = ['memory-node', '--listen', '127.0.0.1:0', '--size', '64m'];
  const node = spawn(process.execPath, [cli, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(createInterface(node.stdout), 'line');
  const address = `tcp://${/on ([\d.]+:\d+)/.exec(line)[1]}`;

  const clients = [1, 2].map(() => fork(import.meta.filename, ['client', address]));
  await Promise.all(clients.map((client) => once(client, 'exit')));

  const store = await open(`${address}/shared`, { values: 'json' });
  const [jobs, done] = [(await store.size()) - 1, await store.get('done')];
  console.log(JSON.stringify({ clients: clients.length, jobs, done }));
  await store.close();
  node.kill();
  await once(node, 'exit');
}

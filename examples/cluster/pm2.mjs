// The same application under pm2. pm2's daemon starts the workers, so you have no parent process that
// could hold their data. The workers find the pool by its name.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { destroySync, openSync } from 'stepwell';
import { visit } from './visitor.mjs';

const WORKERS = Number(process.env.WORKERS ?? 3);
const url = `shm:example-pm2-${process.pid}`;

process.env.PM2_HOME = mkdtempSync(join(tmpdir(), 'example-pm2-')); // leaves your own pm2 alone
process.env.PM2_DISABLE_VERSION_CHECK = 'true';
const { default: pm2 } = await import('pm2');
const call = (name, ...words) => promisify(pm2[name].bind(pm2))(...words);

await call('connect', true); // pm2 without a daemon: it ends with this process
await call('start', {
  name: 'app',
  script: join(import.meta.dirname, 'worker.mjs'),
  instances: WORKERS,
  exec_mode: 'cluster',
  env: { POOL: url },
});
const ports = openSync(url, { store: 'ports' });
while (ports.size < WORKERS) await pause(50);
console.log(JSON.stringify(await visit(`http://127.0.0.1:${[...ports.values()][0]}`)));
await call('delete', 'app');
ports.close();
destroySync(url);
rmSync(process.env.PM2_HOME, { recursive: true, force: true });
process.exit();

/** A client of the helpers in a process of its own, which the test may kill. */
import { appendFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { openSync } from '../../../store/open.ts';
import { lease } from '../../lease.ts';
import { fixedWindow, tokenBucket } from '../../limiters.ts';
import { getOrSet } from '../../single-flight.ts';

export interface Task {
  kind: 'hold' | 'lead' | 'take' | 'critical';
  url: string;
  /** Where `lead` notes each load, and `critical` each time in the lease. */
  log?: string;
  /** How often `take` asks. */
  times?: number;
}

const task = JSON.parse(process.argv[2]) as Task;
const store = openSync(task.url, { create: false });
const send = (message: unknown) => process.send?.(message);
process.on('disconnect', () => process.exit());

async function perform({ kind, log = '', times = 0 }: Task): Promise<unknown> {
  if (kind === 'hold') {
    const { token } = await lease(store, 'job', { ttlMs: 600_000 });
    send({ token });
    return new Promise(() => {});
  }
  if (kind === 'lead') {
    return getOrSet(store, 'k', async () => {
      appendFileSync(log, `${process.pid}\n`);
      send({ loading: true });
      await setTimeout(600_000);
      return 'never';
    });
  }
  if (kind === 'critical') return critical(log, times);
  const [window, bucket] = [
    fixedWindow(store, { limit: 500, windowMs: 600_000 }),
    tokenBucket(store, { capacity: 300, refillPerSecond: 1e-6 }),
  ];
  let [inWindow, fromBucket] = [0, 0];
  for (let i = 0; i < times; i++) {
    if (window.takeSync('k').allowed) inWindow++;
    if (bucket.takeSync('k').allowed) fromBucket++;
  }
  return { inWindow, fromBucket };
}

/** Adds 1 to a number that only the lease guards. */
async function critical(log: string, times: number): Promise<number> {
  let last = 0;
  for (let i = 0; i < times; i++) {
    await using held = await lease(store, 'counter', { ttlMs: 600_000 });
    last = held.token;
    appendFileSync(log, `${held.token}\n`);
    const count = Number(store.get('count') ?? 0);
    await setTimeout(1);
    store.set('count', `${count + 1}`);
  }
  return last;
}

setInterval(() => {}, 1000);
send({ done: await perform(task) });

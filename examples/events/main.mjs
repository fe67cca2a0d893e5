// Several processes append to one log, while a reader follows it.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { destroySync, openSync } from 'stepwell';
import { EventLog } from './log.mjs';

const WRITERS = Number(process.env.WORKERS ?? 3);
const EVENTS = Number(process.env.EVENTS ?? 3_000);
const [role, url = `shm:example-events-${process.pid}`] = process.argv.slice(2);

const store = openSync(url, { store: 'events', index: 'chime' });
const log = new EventLog(store);

if (role === 'writer') {
  for (let i = 0; i < EVENTS / WRITERS; i++) log.append({ by: process.pid, i });
  process.exit();
}

const writers = Array.from({ length: WRITERS }, () => fork(import.meta.filename, ['writer', url]));
const ended = writers.map((writer) => once(writer, 'exit'));
let seen = 0;
let gaps = 0;
const perWriter = new Map();
while (seen < Math.ceil(EVENTS / WRITERS) * WRITERS) {
  for (const { number, event } of log.after(seen, 500)) {
    if (number !== seen + 1) gaps++;
    if (event.i !== (perWriter.get(event.by) ?? -1) + 1) gaps++;
    perWriter.set(event.by, event.i);
    seen = number;
  }
  await turn();
}
await Promise.all(ended);
log.trim(seen);
const left = [...log.after(0)].length;
console.log(JSON.stringify({ events: seen, writers: perWriter.size, gaps, left }));
store.close();
destroySync(url);

import { threadId, workerData } from 'node:worker_threads';
import { openSync } from 'stepwell';

const table = openSync(workerData);

export default function lookUp({ seed, lookups, records }) {
  let found = 0;
  for (let i = 0; i < lookups; i++) {
    const id = (seed * 7_919 + i * 104_729) % records;
    if (table.get(`user:${id}`) === `name of ${id}`) found++;
  }
  table.increment('lookups', lookups); // atomic: all threads add to one record
  return { thread: threadId, found };
}

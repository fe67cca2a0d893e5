/** A client of a pool over the network, in a process of its own: writes until it is stopped. */
import { openSync, writeSync } from 'node:fs';
import { StepwellError } from '../../../../errors.ts';
import type { OpenOptions } from '../../../api.ts';
import { open } from '../../../open.ts';

export interface RemoteTask {
  url: string;
  options: OpenOptions;
  prefix: string;
  keys: number;
  /** Where each write is noted before it begins. */
  log: string;
  /** Operations in flight together. */
  width: number;
}

/** A writer's report: it has opened the store, a write was acknowledged, or one failed. */
export type RemoteReport =
  | { kind: 'open' }
  | { kind: 'done'; key: number; round: number }
  | { kind: 'error'; code: string };

const task = JSON.parse(process.argv[2]) as RemoteTask;
const begun = openSync(task.log, 'a');
const send = (report: RemoteReport) => process.send?.(report);
process.on('disconnect', () => process.exit());

const store = await open(task.url, task.options);
send({ kind: 'open' });

async function lane(first: number): Promise<never> {
  for (let round = 1; ; round++) {
    for (let key = first; key < task.keys; key += task.width) {
      // Into a file, and at once: a message could still lie in this process when it is killed.
      writeSync(begun, `${key} ${round}\n`);
      try {
        await store.set(`${task.prefix}${key}`, `${round}:${'x'.repeat(key % 300)}`);
        send({ kind: 'done', key, round });
      } catch (error) {
        const code = error instanceof StepwellError ? error.code : `raw ${String(error)}`;
        send({ kind: 'error', code });
        // Bounded by the test, which stops this process.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }
}

await Promise.all(Array.from({ length: task.width }, (_, i) => lane(i)));

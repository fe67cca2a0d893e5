import type { ChildProcess } from 'node:child_process';
import type { Cleanup } from '../support/cleanup.ts';
import type { ClientOrder, ClientTask } from './client-process.ts';
import { endProcess, firstMessage, startProcess } from './processes.ts';

/** Client processes of one target, which work simultaneously. */
export class Crew {
  readonly #children: readonly ChildProcess[];

  private constructor(children: readonly ChildProcess[]) {
    this.#children = children;
  }

  static async start(
    cleanup: Cleanup,
    target: ClientTask['target'],
    records: number,
    clients: number,
  ): Promise<Crew> {
    const children: ChildProcess[] = [];
    // One at a time: the first creates the store.
    for (let client = 0; client < clients; client++) {
      const task: ClientTask = { target, records, place: { client, clients } };
      const child = startProcess(cleanup, 'client-process', [JSON.stringify(task)]);
      children.push(child);
      await firstMessage(child);
    }
    return new Crew(children);
  }

  /** The sum of what the clients report. */
  async order(order: ClientOrder): Promise<number> {
    const reports = this.#children.map((child) => firstMessage<number>(child));
    for (const child of this.#children) child.send(order);
    const sums = await Promise.all(reports);
    return sums.reduce((sum, one) => sum + one, 0);
  }

  async end(): Promise<void> {
    for (const child of this.#children) await endProcess(child);
  }
}

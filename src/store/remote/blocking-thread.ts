import type { MessagePort, Worker } from 'node:worker_threads';
import { startWorker } from '../../fabrics/start-worker.ts';
import type { OpenOptions } from '../api.ts';

/** What the thread of a blocking store is asked, and how it answers. */
export interface BlockingCall {
  method: string;
  args: unknown[];
}
export type BlockingAnswer = { value: unknown } | { code: string | undefined; message: string };

export interface BlockingTask {
  url: string;
  options: OpenOptions;
  port: MessagePort;
  /** 1 when an answer lies in the port. */
  answered: Int32Array;
}

/** Not in the registry of symbols; see `ThreadClients`. */
const THREAD = Symbol('stepwell.blockingThread');

type Holder = typeof globalThis & { [THREAD]?: BlockingThread | undefined };

/** The thread that has the connections of a thread's blocking stores, as long as there are any. */
export class BlockingThread {
  readonly #worker: Worker;
  #stores = 0;

  private constructor() {
    this.#worker = startWorker(import.meta.url, 'blocking-worker', undefined);
    this.#worker.unref();
    this.#worker.once('exit', () => this.#forget());
  }

  /** For one store more; each has its `give`. Raises SW_PERMISSION_DENIED. */
  static take(): BlockingThread {
    const holder = globalThis as Holder;
    holder[THREAD] ??= new BlockingThread();
    holder[THREAD].#stores++;
    return holder[THREAD];
  }

  give(): void {
    if (--this.#stores > 0) return;
    this.#forget();
    void this.#worker.terminate();
  }

  #forget(): void {
    const holder = globalThis as Holder;
    if (holder[THREAD] === this) holder[THREAD] = undefined;
  }

  /** The answer comes by the port of the task. */
  start(task: BlockingTask): void {
    this.#worker.postMessage(task, [task.port]);
  }
}

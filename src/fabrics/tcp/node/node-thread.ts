import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { type ErrorCode, StepwellError } from '../../../errors.ts';
import { startWorker } from '../../start-worker.ts';
import type { NodeOptions } from './node-server.ts';

/** Where the thread gets its memory: both can be mapped by others too. */
export type NodeMemoryPlace =
  | { kind: 'memory'; buffers: readonly SharedArrayBuffer[] }
  | { kind: 'file'; path: string; regions: number };

/** All of a node's options that can be sent to a thread. */
export type ThreadOptions = Omit<NodeOptions, 'memory' | 'calls' | 'guesses' | 'dataPath'> & {
  place: NodeMemoryPlace;
  regionBytes: number;
};

export type ThreadMessage =
  | { kind: 'listening'; port: number }
  | { kind: 'failed'; code: string | undefined; message: string };

/** A memory node whose verb loop has a thread of its own. */
export class NodeThread {
  readonly port: number;
  /** Settled when the thread has ended, by `stop` or by a failure. */
  readonly ended: Promise<void>;
  readonly #worker: Worker;

  private constructor(worker: Worker, port: number, ended: Promise<void>) {
    this.#worker = worker;
    this.port = port;
    this.ended = ended;
  }

  /** In the program `node-worker` beside the module `from`, which takes the options. */
  static async start<T extends ThreadOptions>(
    options: T,
    from: string = import.meta.url,
  ): Promise<NodeThread> {
    const worker = startWorker(from, 'node-worker', options);
    const ended = new Promise<void>((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', () => resolve());
    });
    // The caller that waits for the end hears of a failure; before that it is heard of here.
    ended.catch(() => {});
    const [message] = (await once(worker, 'message')) as [ThreadMessage];
    if (message.kind === 'listening') return new NodeThread(worker, message.port, ended);
    await worker.terminate();
    const { code, message: text } = message;
    throw code?.startsWith('SW_') ? new StepwellError(code as ErrorCode, text) : new Error(text);
  }

  async stop(): Promise<void> {
    this.#worker.postMessage('stop');
    await this.ended;
  }
}

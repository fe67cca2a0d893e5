import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import { errorOf, startWorker, type ThreadFailure } from '../../start-worker.ts';
import type { NodeOptions } from './node-server.ts';

/** Where the thread gets its memory. Other threads or processes can map either kind, too. */
export type NodeMemoryPlace =
  | { kind: 'memory'; buffers: readonly SharedArrayBuffer[] }
  | { kind: 'file'; path: string; regions: number };

/** The options of a node that can be sent to a thread, and where its memory is. */
export type ThreadOptions = Omit<NodeOptions, 'memory' | 'calls' | 'guesses' | 'dataPath'> & {
  place: NodeMemoryPlace;
  regionBytes: number;
};

export type ThreadMessage = { kind: 'listening'; port: number } | ThreadFailure;

/** A memory node whose verb loop has a thread of its own. */
export class NodeThread {
  readonly port: number;
  /** Resolves when the thread has ended, and rejects if it failed. */
  readonly ended: Promise<void>;
  readonly #worker: Worker;

  private constructor(worker: Worker, port: number, ended: Promise<void>) {
    this.#worker = worker;
    this.port = port;
    this.ended = ended;
  }

  /** Starts the thread: the module `node-worker` in the folder of the module `from`. */
  static async start<T extends ThreadOptions>(
    options: T,
    from: string = import.meta.url,
  ): Promise<NodeThread> {
    const worker = startWorker(from, 'node-worker', options);
    const ended = new Promise<void>((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', () => resolve());
    });
    // Until a caller waits for `ended`, a failure must not count as an unhandled rejection.
    ended.catch(() => {});
    const [message] = (await once(worker, 'message')) as [ThreadMessage];
    if (message.kind === 'listening') return new NodeThread(worker, message.port, ended);
    await worker.terminate();
    throw errorOf(message);
  }

  async stop(): Promise<void> {
    this.#worker.postMessage('stop');
    await this.ended;
  }
}

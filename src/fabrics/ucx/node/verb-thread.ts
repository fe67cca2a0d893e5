import { once } from 'node:events';
import { statSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import { StepwellError } from '../../../errors.ts';
import { givesHugePages, hasHugePages } from '../../shared/huge-pages.ts';
import { loadKoffi } from '../../shared/libc.ts';
import { errorOf, startWorker, type ThreadFailure } from '../../start-worker.ts';
import type { PagesAnswer } from '../../tcp/method-arguments.ts';
import type { DataPath } from '../../tcp/node/data-path.ts';
import type { NodeMemoryPlace } from '../../tcp/node/node-thread.ts';
import type { Transports } from '../transports.ts';
import { Bell } from './bell.ts';

export interface VerbThreadOptions {
  place: NodeMemoryPlace;
  regionBytes: number;
  transports: Transports;
  bell: SharedArrayBuffer;
}

export type VerbRequest =
  | { kind: 'attach'; session: number }
  | { kind: 'end'; session: number }
  | { kind: 'stop' };

/** Answers come in the order of the requests. The thread answers `stop` by ending. */
export type VerbAnswer =
  | { kind: 'ready' }
  | { kind: 'attached'; lent: Uint8Array }
  | { kind: 'ended' }
  | ThreadFailure;

interface Waiting {
  resolve(answer: VerbAnswer): void;
  reject(error: unknown): void;
}

/**
 * The thread of a memory node in which UCX runs. It executes the verbs of all sessions, so it can
 * revoke a session between two verbs. It runs a loop of its own instead of the event loop.
 */
export class VerbThread implements DataPath {
  /** Settles when the thread has ended; rejects if it failed. */
  readonly ended: Promise<void>;
  readonly #worker: Worker;
  readonly #bell: Bell;
  readonly #waiting: Waiting[] = [];
  readonly #place: NodeMemoryPlace;
  #failure: unknown;

  private constructor(worker: Worker, bell: Bell, place: NodeMemoryPlace) {
    this.#worker = worker;
    this.#place = place;
    this.#bell = bell;
    worker.on('message', (answer: VerbAnswer) => this.#answered(answer));
    this.ended = new Promise((resolve, reject) => {
      worker.once('error', reject);
      worker.once('exit', () => resolve());
    });
    const over = (error?: unknown) => this.#fail(error ?? closed());
    this.ended.then(() => over(), over);
  }

  /** Raises SW_UNSUPPORTED if the library or the transport is missing. */
  static async start(options: Omit<VerbThreadOptions, 'bell'>): Promise<VerbThread> {
    const bell = new Bell();
    const worker = startWorker(import.meta.url, 'verb-loop', { ...options, bell: bell.memory });
    const [answer] = (await once(worker, 'message')) as [VerbAnswer];
    if (answer.kind === 'ready') return new VerbThread(worker, bell, options.place);
    await worker.terminate();
    bell.close();
    throw unexpected(answer);
  }

  async attach(session: number): Promise<Uint8Array> {
    const answer = await this.#ask({ kind: 'attach', session });
    if (answer.kind !== 'attached') throw unexpected(answer);
    return answer.lent;
  }

  async end(session: number): Promise<void> {
    // A thread that has ended executes no verbs either.
    if (this.#failure !== undefined) return;
    await this.#ask({ kind: 'end', session }).catch(() => {});
  }

  /** Checks the mappings of both threads: verbs use one of them. */
  pages(): PagesAnswer {
    const place = this.#place;
    if (place.kind === 'file') {
      const file = statSync(place.path, { throwIfNoEntry: false });
      return hasHugePages(({ inode }) => inode === file?.ino) ? 'huge' : 'small in the file';
    }
    const koffi = loadKoffi('ucx: pools');
    const ranges = place.buffers.map((buffer) => {
      const from = Number(koffi.address(new Uint8Array(buffer)));
      return { from, end: from + buffer.byteLength };
    });
    const isAny = hasHugePages(({ from, end }) =>
      ranges.some((range) => from < range.end && range.from < end),
    );
    if (isAny) return 'huge';
    return givesHugePages() ? 'none yet' : 'refused';
  }

  async close(): Promise<void> {
    if (this.#failure === undefined) {
      this.#worker.postMessage({ kind: 'stop' } satisfies VerbRequest);
      this.#bell.ring();
    }
    await this.ended.catch(() => {});
    this.#bell.close();
  }

  #ask(request: VerbRequest): Promise<VerbAnswer> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(request);
      this.#bell.ring();
    });
  }

  #answered(answer: VerbAnswer): void {
    this.#waiting.shift()?.resolve(answer);
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

function closed(): StepwellError {
  return new StepwellError('SW_CLOSED', 'the memory node has been stopped');
}

function unexpected(answer: VerbAnswer): Error {
  if (answer.kind === 'failed') return errorOf(answer);
  return new Error(`unexpected answer: ${answer.kind}`);
}

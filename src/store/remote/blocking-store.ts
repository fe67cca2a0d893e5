import { once } from 'node:events';
import {
  MessageChannel,
  type MessagePort,
  receiveMessageOnPort,
  type Worker,
} from 'node:worker_threads';
import { type ErrorCode, StepwellError } from '../../errors.ts';
import { startWorker } from '../../fabrics/tcp/node/start-worker.ts';
import type { Entry, Key, KeyPage, OpenOptions, StoreStats, Value, WriteResult } from '../api.ts';
import type { RangeBounds, RangeOptions, ScanOptions } from '../ordered-api.ts';

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

/**
 * A store on memory nodes with synchronous calls: each waits, with its whole thread, for a thread
 * that has the connections. For callers that cannot await, such as the gateway's commands; whoever
 * can, opens the store itself and has many operations in flight. Values are bytes.
 */
export class BlockingStore {
  readonly name: string;
  readonly handle: string;
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #answered: Int32Array;

  private constructor(task: BlockingTask, worker: Worker, port: MessagePort) {
    this.name = task.options.store ?? 'default';
    this.handle = task.url;
    this.#worker = worker;
    this.#port = port;
    this.#answered = task.answered;
  }

  /** Raises what `open` raises. */
  static async open(url: string, options: OpenOptions): Promise<BlockingStore> {
    const { port1, port2 } = new MessageChannel();
    const answered = new Int32Array(new SharedArrayBuffer(4));
    const task: BlockingTask = {
      url,
      options: { ...options, values: 'bytes' },
      port: port2,
      answered,
    };
    const worker = startWorker(import.meta.url, 'blocking-worker', task, [port2]);
    const [opened] = (await once(worker, 'message')) as [BlockingAnswer];
    if (!('value' in opened)) await worker.terminate();
    result(opened);
    worker.unref();
    return new BlockingStore(task, worker, port1);
  }

  get(key: Key): Uint8Array | undefined {
    return this.#call('get', key);
  }

  getEntry(key: Key): Entry<Uint8Array> | undefined {
    return this.#call('getEntry', key);
  }

  has(key: Key): boolean {
    return this.#call('has', key);
  }

  put(key: Key, value: Value): void {
    this.#call('put', key, value);
  }

  insert(key: Key, value: Value): boolean {
    return this.#call('insert', key, value);
  }

  write(key: Key, value: Value, options?: object): WriteResult<Uint8Array> {
    return this.#call('write', key, value, options);
  }

  take(key: Key): Uint8Array | undefined {
    return this.#call('take', key);
  }

  compareAndDelete(key: Key, version: number): boolean {
    return this.#call('compareAndDelete', key, version);
  }

  increment(key: Key, by?: number): number;
  increment(key: Key, by: bigint): bigint;
  increment(key: Key, by: number | bigint = 1): number | bigint {
    return this.#call('increment', key, by);
  }

  getMany(keys: readonly Key[], options?: { maxBytes?: number }): (Uint8Array | undefined)[] {
    return this.#call('getMany', keys, options);
  }

  putMany(entries: Iterable<readonly [Key, Value]>): void {
    this.#call('putMany', [...entries]);
  }

  deleteMany(keys: readonly Key[]): number {
    return this.#call('deleteMany', keys);
  }

  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined {
    const bytes = this.get(key);
    return bytes === undefined ? undefined : use(bytes);
  }

  get size(): number {
    return this.#call('size');
  }

  scanKeys(cursor: number, count?: number, options?: { prefix?: Key }): KeyPage {
    return this.#call('scanKeys', cursor, count, options);
  }

  stats(): StoreStats {
    return this.#call('stats');
  }

  /** All of the range at once: give it a limit. */
  keys(range: ScanOptions): Iterable<Key> {
    return this.#call('keys', range);
  }

  entries(range: ScanOptions): Iterable<[Key, Uint8Array]> {
    return this.#call('entries', range);
  }

  count(bounds: RangeBounds): number {
    return this.#call('count', bounds);
  }

  clear(range?: RangeOptions): void {
    this.#call('clear', range);
  }

  close(): void {
    this.#call('close');
    this.#port.close();
    void this.#worker.terminate();
  }

  #call<T>(method: string, ...args: unknown[]): T {
    const call: BlockingCall = { method, args: args.map(exactly) };
    Atomics.store(this.#answered, 0, 0);
    this.#port.postMessage(call);
    // The thread answers in a bounded time: as long as a memory node may be silent.
    Atomics.wait(this.#answered, 0, 0);
    const received = receiveMessageOnPort(this.#port) as { message: BlockingAnswer } | undefined;
    if (received === undefined) throw new StepwellError('SW_CLOSED', 'the store has been closed');
    return result(received.message) as T;
  }
}

function result(answer: BlockingAnswer): unknown {
  if ('value' in answer) return answer.value;
  const { code, message } = answer;
  throw code?.startsWith('SW_')
    ? new StepwellError(code as ErrorCode, message)
    : new Error(message);
}

/** A copy of exactly these bytes: of a Buffer all that it shares its memory with would go along. */
function exactly(value: unknown): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  return Array.isArray(value) ? value.map(exactly) : value;
}

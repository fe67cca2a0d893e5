import { once } from 'node:events';
import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import { type ErrorCode, StepwellError } from '../../errors.ts';
import type { Key, OpenOptions, Store } from '../api.ts';
import { type CallForwarder, type CallName, forwardCalls } from '../calls/call-names.ts';
import type { ScanOptions } from '../ordered-api.ts';
import {
  type BlockingAnswer,
  type BlockingCall,
  type BlockingTask,
  BlockingThread,
} from './blocking-thread.ts';

/** The calls of a blocking store that `forwardCalls` adds. */
type BlockingCalls = Pick<Store<Uint8Array>, Exclude<CallName, 'size' | 'read'>>;

/** `forwardCalls` adds these. */
export interface BlockingStore extends BlockingCalls {}

/**
 * A store on memory nodes with synchronous calls: each waits, with its whole thread, for a thread
 * that has the connections: one for all blocking stores of a thread, so that they share a client
 * where others do. It is for callers that cannot await, such as the gateway's commands. Others open
 * the store itself and have many operations in flight. Values are bytes.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: `forwardCalls` adds the calls
export class BlockingStore implements CallForwarder {
  readonly name: string;
  readonly handle: string;
  readonly #thread: BlockingThread;
  readonly #port: MessagePort;
  readonly #answered: Int32Array;

  private constructor(task: BlockingTask, thread: BlockingThread, port: MessagePort) {
    this.name = task.options.store ?? 'default';
    this.handle = task.url;
    this.#thread = thread;
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
    const thread = BlockingThread.take();
    try {
      const opening = once(port1, 'message') as Promise<[BlockingAnswer]>;
      thread.start(task);
      result((await opening)[0]);
    } catch (error) {
      port1.close();
      thread.give();
      throw error;
    }
    port1.unref();
    return new BlockingStore(task, thread, port1);
  }

  call(name: CallName, args: unknown[]): unknown {
    return this.#call(name, ...(name === 'setMany' ? [[...(args[0] as Iterable<unknown>)]] : args));
  }

  read<T>(key: Key, use: (bytes: Uint8Array) => T): T | undefined {
    const bytes = this.get(key);
    return bytes === undefined ? undefined : use(bytes);
  }

  get size(): number {
    return this.#call('size');
  }

  /** All of the range at once: give it a limit. */
  keys(range: ScanOptions): Iterable<Key> {
    return this.#call('keys', range);
  }

  entries(range: ScanOptions): Iterable<[Key, Uint8Array]> {
    return this.#call('entries', range);
  }

  close(): void {
    this.#call('close');
    this.#port.close();
    this.#thread.give();
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

forwardCalls(BlockingStore);

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

import { randomBytes } from 'node:crypto';
import { StepwellError } from '../../errors.ts';
import type { Operation } from '../../verbs/index.ts';
import { ReplyError } from '../arguments.ts';
import type { GatewayPool, GatewayStore } from '../gateway-store.ts';
import type { Channels } from './channels.ts';
import { MESSAGE_BYTES_MAX, MessageRing, type RingStore } from './message-ring.ts';
import type { NotificationFlags } from './notifications.ts';

/** How often a gateway with subscribers reads messages of other gateways. */
const POLL_MS = 10;
/** How often every gateway reads the settings that all of them share. */
const SETTING_MS = 1000;
const NOTIFY_KEY = 'notify-keyspace-events';

export type MessageStore = RingStore & Pick<GatewayStore, 'get' | 'set'>;

/** Opens the store of messages; undefined if it is absent and `create` is false. */
export type OpenMessages = (create: boolean) => MessageStore | undefined;

/** What the bus needs from the server. */
export interface BusHooks {
  readonly pool: GatewayPool;
  readonly onNotify: (text: string) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Carries messages between the clients of all gateways of a pool. Clients of this process get a
 * message at once; other gateways read it from a ring in the pool.
 */
export class MessageBus {
  /** Events that could not be sent to other gateways. */
  unsent = 0;

  readonly #channels: Channels;
  readonly #open: OpenMessages;
  readonly #hooks: BusHooks;
  #store: MessageStore | undefined;
  #ring: MessageRing | undefined;
  #polling: NodeJS.Timeout | undefined;
  #settings: NodeJS.Timeout | undefined;
  #notify: string | undefined;
  #isClosed = false;

  /** Without `open` messages stay in this process. */
  constructor(channels: Channels, open: OpenMessages | undefined, hooks: BusHooks) {
    this.#channels = channels;
    this.#open = open ?? (() => undefined);
    this.#hooks = hooks;
    if (open === undefined) return;
    this.#settings = this.#every(SETTING_MS, () => this.readSettings());
  }

  /** Messages of other gateways that were overwritten before this one read them. */
  get lost(): number {
    return this.#ring?.lost ?? 0;
  }

  /** Returns how many clients of this process got the message. */
  *publish(channel: Buffer, message: Buffer): Operation<number> {
    yield* this.#send(channel, message);
    return this.#channels.deliver(channel, message);
  }

  /**
   * Publishes the event of a write. The write is done, so its command must not fail: an event that
   * cannot be sent to other gateways (the pool is full, or the key too long) is only counted.
   */
  *notify(channel: Buffer, message: Buffer): Operation<void> {
    try {
      yield* this.#send(channel, message);
    } catch (error) {
      this.unsent++;
      const isExpected = error instanceof ReplyError || error instanceof StepwellError;
      if (!isExpected) this.#hooks.onError(error);
    }
    this.#channels.deliver(channel, message);
  }

  /** Sends a message to other gateways. */
  *#send(channel: Buffer, message: Buffer): Operation<void> {
    const ring = this.#ringOf(true);
    const bytes = channel.length + message.length;
    if (ring !== undefined && bytes > MESSAGE_BYTES_MAX) {
      throw new ReplyError(
        `ERR a message and its channel have at most ${MESSAGE_BYTES_MAX} bytes together`,
      );
    }
    if (ring === undefined) return;
    // Deliver earlier messages of other gateways first.
    if (this.#polling !== undefined) yield* this.#poll(ring);
    yield* ring.append(channel, message);
  }

  /** Called before a client subscribes: SUBSCRIBE must fail if the ring cannot be opened. */
  openRing(): void {
    this.#ringOf(true);
  }

  /**
   * Called when clients have subscribed, unsubscribed or left: starts or stops reading the ring. No
   * client can be told of a failure any more.
   */
  *update(): Operation<void> {
    try {
      yield* this.#update();
    } catch (error) {
      if (!this.#isClosed) this.#hooks.onError(error);
    }
  }

  *#update(): Operation<void> {
    const ring = this.#channels.isEmpty ? undefined : this.#ringOf(true);
    const last = ring === undefined || this.#polling !== undefined ? 0 : yield* ring.last();
    // Over a network, clients may have subscribed or left in the meantime.
    if (ring === undefined || this.#channels.isEmpty || this.#isClosed) {
      clearInterval(this.#polling);
      this.#polling = undefined;
    } else if (this.#polling === undefined) {
      ring.begin(last);
      this.#polling = this.#every(POLL_MS, () => this.#poll(ring));
    }
  }

  /** Makes all gateways of the pool publish these events, the others within a second. */
  *share(flags: NotificationFlags): Operation<void> {
    const store = this.#storeOf(true);
    if (store !== undefined) yield* store.set(NOTIFY_KEY, flags.text);
    this.#notify = flags.text;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#polling);
    clearInterval(this.#settings);
  }

  #storeOf(create: boolean): MessageStore | undefined {
    this.#store ??= this.#open(create);
    return this.#store;
  }

  #ringOf(create: boolean): MessageRing | undefined {
    const store = this.#storeOf(create);
    if (store !== undefined) this.#ring ??= new MessageRing(store, randomBytes(8));
    return this.#ring;
  }

  *#poll(ring: MessageRing): Operation<void> {
    yield* ring.read((channel, message) => this.#channels.deliver(channel, message));
  }

  /** Applies the settings that the gateways of the pool share. */
  *readSettings(): Operation<void> {
    const store = this.#storeOf(false);
    const shared = store === undefined ? undefined : yield* store.get(NOTIFY_KEY);
    if (shared === undefined) return;
    const text = Buffer.from(shared).toString('latin1');
    if (text === this.#notify) return;
    this.#notify = text;
    this.#hooks.onNotify(text);
  }

  /** Repeats an operation between commands. After a failure it tries again the next time. */
  #every(ms: number, operation: () => Operation<void>): NodeJS.Timeout {
    let isRunning = false;
    const run = async () => {
      if (isRunning) return;
      isRunning = true;
      try {
        await this.#hooks.pool.run(operation());
      } catch (error) {
        if (!this.#isClosed) this.#hooks.onError(error);
      }
      isRunning = false;
    };
    return setInterval(run, ms).unref();
  }
}

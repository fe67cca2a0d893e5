import { randomBytes } from 'node:crypto';
import { ReplyError } from '../arguments.ts';
import type { GatewayStore } from '../gateway-store.ts';
import type { Channels } from './channels.ts';
import { MessageRing, type RingStore } from './message-ring.ts';
import type { NotificationFlags } from './notifications.ts';

/** How often a gateway with subscribers looks for messages of others. */
const POLL_MS = 10;
/** How often any gateway looks whether another one has changed what they share. */
const SETTING_MS = 1000;
const NOTIFY_KEY = 'notify-keyspace-events';

export type MessageStore = RingStore & Pick<GatewayStore, 'get' | 'set'>;

/** What the bus tells of what it reads. */
export interface BusHooks {
  readonly onNotify: (text: string) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Messages between the clients of all gateways of one pool. Those of this process get a message at
 * once; other gateways read it from a ring in the pool.
 */
export class MessageBus {
  readonly #channels: Channels;
  readonly #store: MessageStore | undefined;
  readonly #ring: MessageRing | undefined;
  readonly #hooks: BusHooks;
  #polling: NodeJS.Timeout | undefined;
  readonly #settings: NodeJS.Timeout | undefined;
  #notify: string | undefined;

  /** Without a store messages stay in this process. */
  constructor(channels: Channels, store: MessageStore | undefined, hooks: BusHooks) {
    this.#channels = channels;
    this.#store = store;
    this.#hooks = hooks;
    if (store === undefined) return;
    this.#ring = new MessageRing(store, randomBytes(8));
    this.#readSettings();
    this.#settings = setInterval(() => this.#guard(() => this.#readSettings()), SETTING_MS);
    this.#settings.unref();
  }

  /** Messages of other gateways that were overwritten before this one had read them. */
  get lost(): number {
    return this.#ring?.lost ?? 0;
  }

  /** Returns how many clients of this process got it. */
  publish(channel: Buffer, message: Buffer): number {
    const bytes = channel.length + message.length;
    if (this.#ring !== undefined && bytes > this.#ring.messageBytesMax) {
      throw new ReplyError(
        `ERR a message and its channel have at most ${this.#ring.messageBytesMax} bytes together`,
      );
    }
    this.#ring?.append(channel, message);
    return this.#channels.deliver(channel, message);
  }

  /** Called when clients have subscribed or unsubscribed: messages count from here on. */
  update(): void {
    const isWanted = this.#ring !== undefined && !this.#channels.isEmpty;
    if (isWanted && this.#polling === undefined) {
      this.#ring?.begin();
      this.#polling = setInterval(() => this.#guard(() => this.#poll()), POLL_MS);
      this.#polling.unref();
    } else if (!isWanted) {
      clearInterval(this.#polling);
      this.#polling = undefined;
    }
  }

  /** Makes all gateways of the pool publish these events, others within a second. */
  share(flags: NotificationFlags): void {
    this.#notify = flags.text;
    this.#store?.set(NOTIFY_KEY, flags.text, { ttlMs: Number.POSITIVE_INFINITY });
  }

  close(): void {
    clearInterval(this.#polling);
    clearInterval(this.#settings);
  }

  #poll(): void {
    this.#ring?.read((channel, message) => this.#channels.deliver(channel, message));
  }

  #readSettings(): void {
    const shared = this.#store?.get(NOTIFY_KEY);
    if (shared === undefined) return;
    const text = Buffer.from(shared).toString('latin1');
    if (text === this.#notify) return;
    this.#notify = text;
    this.#hooks.onNotify(text);
  }

  /** A pool that fails now may answer the next time. */
  #guard(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#hooks.onError(error);
    }
  }
}

import { Glob } from '../glob.ts';
import { type ProtocolVersion, ReplyWriter } from '../protocol/reply.ts';

/** A connection that messages are sent to. */
export interface Subscriber {
  readonly protocol: ProtocolVersion;
  /** Sends these bytes between two replies; they must not change afterwards. */
  push(frame: Uint8Array): void;
}

interface Pattern {
  readonly glob: Glob;
  readonly subscribers: Set<Subscriber>;
}

/** The subscriptions of this process. Names are latin1 text: one character is one byte. */
export class Channels {
  readonly #channels = new Map<string, Set<Subscriber>>();
  readonly #patterns = new Map<string, Pattern>();

  get isEmpty(): boolean {
    return this.#channels.size + this.#patterns.size === 0;
  }

  get patternCount(): number {
    return this.#patterns.size;
  }

  get channelCount(): number {
    return this.#channels.size;
  }

  /** Names of channels with a subscriber. */
  names(): Iterable<string> {
    return this.#channels.keys();
  }

  subscribersOf(channel: string): number {
    return this.#channels.get(channel)?.size ?? 0;
  }

  subscribe(subscriber: Subscriber, channel: string): void {
    const subscribers = this.#channels.get(channel) ?? new Set();
    this.#channels.set(channel, subscribers.add(subscriber));
  }

  unsubscribe(subscriber: Subscriber, channel: string): void {
    const subscribers = this.#channels.get(channel);
    if (subscribers?.delete(subscriber) && subscribers.size === 0) this.#channels.delete(channel);
  }

  subscribePattern(subscriber: Subscriber, pattern: string): void {
    let found = this.#patterns.get(pattern);
    if (found === undefined) {
      found = { glob: new Glob(Buffer.from(pattern, 'latin1')), subscribers: new Set() };
      this.#patterns.set(pattern, found);
    }
    found.subscribers.add(subscriber);
  }

  unsubscribePattern(subscriber: Subscriber, pattern: string): void {
    const found = this.#patterns.get(pattern);
    if (found?.subscribers.delete(subscriber) && found.subscribers.size === 0) {
      this.#patterns.delete(pattern);
    }
  }

  /** Sends a message to all its subscribers; returns how many times it was sent. */
  deliver(channel: Uint8Array, message: Uint8Array): number {
    let receivers = 0;
    const direct = this.#channels.get(Buffer.from(channel).toString('latin1'));
    if (direct !== undefined) receivers += send(direct, ['message', channel, message]);
    for (const [pattern, { glob, subscribers }] of this.#patterns) {
      if (!glob.matches(channel)) continue;
      const name = Buffer.from(pattern, 'latin1');
      receivers += send(subscribers, ['pmessage', name, channel, message]);
    }
    return receivers;
  }
}

/** Encodes the message once for each protocol version. */
function send(subscribers: ReadonlySet<Subscriber>, elements: (string | Uint8Array)[]): number {
  const encoded: Partial<Record<ProtocolVersion, Uint8Array>> = {};
  for (const subscriber of subscribers) {
    const { protocol } = subscriber;
    encoded[protocol] ??= pushFrame(protocol, elements);
    subscriber.push(encoded[protocol]);
  }
  return subscribers.size;
}

/** Encodes a message for subscribers. RESP3 has a separate type for it. */
function pushFrame(protocol: ProtocolVersion, elements: (string | Uint8Array)[]): Uint8Array {
  const writer = new ReplyWriter();
  writer.protocol = protocol;
  writer.push(elements.length);
  for (const element of elements) writer.bulk(element);
  const parts: Uint8Array[] = [];
  writer.flush({ write: (bytes) => parts.push(bytes) });
  return Buffer.concat(parts);
}

import { Glob } from '../glob.ts';
import { type ProtocolVersion, ReplyWriter } from '../protocol/reply.ts';

/** A connection that receives messages. */
export interface Subscriber {
  readonly protocol: ProtocolVersion;
  /** Sends the bytes between two replies. They must not change afterwards. */
  push(frame: Uint8Array): void;
}

/** Clients subscribe to channels by name, or by a pattern that names match. */
export type SubscriptionKind = 'channels' | 'patterns';

interface Subscription {
  /** Only of patterns: compiling a name takes some fifty times its bytes. */
  readonly glob: Glob | undefined;
  readonly subscribers: Set<Subscriber>;
}

/** The subscriptions of this process. Names are latin1 text: one character is one byte. */
export class Channels {
  readonly #subscriptions = {
    channels: new Map<string, Subscription>(),
    patterns: new Map<string, Subscription>(),
  };

  get isEmpty(): boolean {
    return this.count('channels') + this.count('patterns') === 0;
  }

  count(kind: SubscriptionKind): number {
    return this.#subscriptions[kind].size;
  }

  /** Names of channels with a subscriber. */
  names(): Iterable<string> {
    return this.#subscriptions.channels.keys();
  }

  subscribersOf(channel: string): number {
    return this.#subscriptions.channels.get(channel)?.subscribers.size ?? 0;
  }

  subscribe(kind: SubscriptionKind, subscriber: Subscriber, name: string): void {
    const known = this.#subscriptions[kind];
    const found = known.get(name) ?? {
      glob: kind === 'patterns' ? new Glob(Buffer.from(name, 'latin1')) : undefined,
      subscribers: new Set<Subscriber>(),
    };
    known.set(name, found);
    found.subscribers.add(subscriber);
  }

  unsubscribe(kind: SubscriptionKind, subscriber: Subscriber, name: string): void {
    const subscribers = this.#subscriptions[kind].get(name)?.subscribers;
    if (subscribers?.delete(subscriber) && subscribers.size === 0) {
      this.#subscriptions[kind].delete(name);
    }
  }

  /** Sends a message to its subscribers; returns how often it was sent. */
  deliver(channel: Uint8Array, message: Uint8Array): number {
    let receivers = 0;
    const { channels, patterns } = this.#subscriptions;
    const direct = channels.get(Buffer.from(channel).toString('latin1'));
    if (direct !== undefined) receivers += send(direct.subscribers, ['message', channel, message]);
    for (const [pattern, { glob, subscribers }] of patterns) {
      if (!glob?.matches(channel)) continue;
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

function pushFrame(protocol: ProtocolVersion, elements: (string | Uint8Array)[]): Uint8Array {
  const writer = new ReplyWriter();
  writer.protocol = protocol;
  writer.push(elements.length);
  for (const element of elements) writer.bulk(element);
  const parts: Uint8Array[] = [];
  writer.flush({ write: (bytes) => parts.push(bytes) });
  return Buffer.concat(parts);
}

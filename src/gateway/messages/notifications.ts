/** Kinds of events: of keys in general, and of strings. */
export type EventKind = 'g' | '$';

/** Kinds that Redis has; `A` names all of them. Events here are of `g` and `$`. */
const KINDS = 'g$lshzxetd';
const ALL_CHARACTERS = `${KINDS}KEmnA`;

/** What `notify-keyspace-events` says: which events are published, and by which channels. */
export class NotificationFlags {
  /** In the order in which Redis tells them. */
  readonly text: string;
  readonly byKey: boolean;
  readonly byEvent: boolean;
  readonly #kinds: string;

  constructor(text: string) {
    const has = (flag: string) => text.includes(flag);
    this.#kinds = has('A') ? KINDS : [...KINDS].filter(has).join('');
    this.byKey = has('K');
    this.byEvent = has('E');
    const kinds = this.#kinds === KINDS ? 'A' : this.#kinds + (has('n') ? 'n' : '');
    this.text = kinds + [...'KEm'].filter(has).join('');
  }

  /** Undefined for characters that mean nothing. */
  static parse(text: string): NotificationFlags | undefined {
    const isKnown = [...text].every((character) => ALL_CHARACTERS.includes(character));
    return isKnown ? new NotificationFlags(text) : undefined;
  }

  /** Whether any event is published. */
  get isOn(): boolean {
    return (this.byKey || this.byEvent) && this.#kinds !== '';
  }

  wants(kind: EventKind): boolean {
    return this.#kinds.includes(kind);
  }
}

type Publish = (channel: Buffer, message: Buffer) => void;

/** Publishes an event by the channels that the flags name. */
export function publishEvent(
  publish: Publish,
  flags: NotificationFlags,
  { database, kind, event, key }: KeyEvent,
): void {
  if (!flags.wants(kind)) return;
  const name = Buffer.from(key);
  if (flags.byKey) {
    const channel = Buffer.concat([Buffer.from(`__keyspace@${database}__:`), name]);
    publish(channel, Buffer.from(event));
  }
  if (flags.byEvent) publish(Buffer.from(`__keyevent@${database}__:${event}`), name);
}

interface KeyEvent {
  readonly database: number;
  readonly kind: EventKind;
  readonly event: string;
  readonly key: Uint8Array;
}

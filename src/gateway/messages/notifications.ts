/** Kinds of events: of keys in general, and of strings. */
export type EventKind = 'g' | '$';

/** Redis's kinds of events; `A` stands for all of them. The gateway publishes only `g` and `$`. */
const KINDS = 'g$lshzxetd';
const ALL_CHARACTERS = `${KINDS}KEmnA`;

/** The setting `notify-keyspace-events`: which events are published, and on which channels. */
export class NotificationFlags {
  /** The flags in the order in which Redis reports them. */
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

  /** Undefined if the text has an unknown character. */
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

/** The messages that publish an event: one per channel that the flags enable. */
export function messagesOf(
  flags: NotificationFlags,
  { database, kind, event, key }: KeyEvent,
): [channel: Buffer, message: Buffer][] {
  const messages: [Buffer, Buffer][] = [];
  if (!flags.wants(kind)) return messages;
  const name = Buffer.from(key);
  if (flags.byKey) {
    const channel = Buffer.concat([Buffer.from(`__keyspace@${database}__:`), name]);
    messages.push([channel, Buffer.from(event)]);
  }
  if (flags.byEvent) messages.push([Buffer.from(`__keyevent@${database}__:${event}`), name]);
  return messages;
}

interface KeyEvent {
  readonly database: number;
  readonly kind: EventKind;
  readonly event: string;
  readonly key: Uint8Array;
}

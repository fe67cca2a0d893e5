import type { Request } from '../protocol/request-reader.ts';
import type { Settings } from '../settings.ts';

/** As much of a command as Redis keeps. */
const ARGUMENTS_MAX = 32;
const ARGUMENT_BYTES_MAX = 128;

export interface SlowCommand {
  readonly id: number;
  /** Seconds since 1970. */
  readonly at: number;
  readonly microseconds: number;
  readonly words: readonly Buffer[];
  readonly address: string;
  readonly name: string;
}

/** The latest slow commands. */
export class SlowLog {
  readonly #settings: Settings;
  #commands: SlowCommand[] = [];
  #nextId = 0;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  get length(): number {
    return this.#commands.length;
  }

  /** Latest first. */
  latest(count: number): SlowCommand[] {
    return this.#commands.slice(-count).reverse();
  }

  clear(): void {
    this.#commands = [];
  }

  /** `ms` is the duration of the command. */
  add(request: Request, ms: number, address: string, name: string): void {
    const microseconds = Math.round(ms * 1000);
    const { slowerThanMicroseconds, slowLogLength } = this.#settings;
    if (slowerThanMicroseconds < 0 || microseconds < slowerThanMicroseconds) return;
    this.#commands.push({
      id: this.#nextId++,
      at: Math.floor(Date.now() / 1000),
      microseconds,
      words: wordsOf(request),
      address,
      name,
    });
    while (this.#commands.length > slowLogLength) this.#commands.shift();
  }
}

function wordsOf(request: Request): Buffer[] {
  const words = request.slice(0, ARGUMENTS_MAX).map(shortened);
  if (request.length > ARGUMENTS_MAX) {
    const more = request.length - ARGUMENTS_MAX + 1;
    words[ARGUMENTS_MAX - 1] = Buffer.from(`... (${more} more arguments)`);
  }
  return words;
}

function shortened(argument: Buffer): Buffer {
  if (argument.length <= ARGUMENT_BYTES_MAX) return Buffer.from(argument);
  const more = argument.length - ARGUMENT_BYTES_MAX;
  const begin = argument.subarray(0, ARGUMENT_BYTES_MAX);
  return Buffer.concat([begin, Buffer.from(`... (${more} more bytes)`)]);
}

import type { Subscriber } from '../messages/channels.ts';
import type { Request } from '../protocol/request-reader.ts';

/** Limits of what a monitor shows of a command: its output is for people. */
const ARGUMENT_BYTES_MAX = 1024;
const ARGUMENTS_MAX = 64;

/** Connections that see every command that runs. */
export class Monitors {
  readonly #monitors = new Set<Subscriber>();

  get isEmpty(): boolean {
    return this.#monitors.size === 0;
  }

  add(monitor: Subscriber): void {
    this.#monitors.add(monitor);
  }

  remove(monitor: Subscriber): void {
    this.#monitors.delete(monitor);
  }

  tell(request: Request, database: number, address: string): void {
    const now = Date.now();
    const time = `${Math.floor(now / 1000)}.${String(now % 1000).padStart(3, '0')}000`;
    const words = request.slice(0, ARGUMENTS_MAX).map(shown).join(' ');
    const more = request.length > ARGUMENTS_MAX ? ` ... (${request.length} words)` : '';
    const line = `+${time} [${database} ${address}] ${words}${more}\r\n`;
    const frame = Buffer.from(line, 'latin1');
    for (const monitor of this.#monitors) monitor.push(frame);
  }
}

function shown(argument: Buffer): string {
  if (argument.length <= ARGUMENT_BYTES_MAX) return quoted(argument);
  return `${quoted(argument.subarray(0, ARGUMENT_BYTES_MAX))}... (${argument.length} bytes)`;
}

const ESCAPES: Readonly<Record<number, string>> = {
  7: '\\a',
  8: '\\b',
  9: '\\t',
  10: '\\n',
  13: '\\r',
  34: '\\"',
  92: '\\\\',
};

/** Bytes as Redis shows them: in double quotes, unprintable ones as `\xHH`. */
function quoted(bytes: Uint8Array): string {
  let text = '"';
  for (const byte of bytes) {
    if (ESCAPES[byte] !== undefined) text += ESCAPES[byte];
    else if (byte >= 32 && byte < 127) text += String.fromCharCode(byte);
    else text += `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return `${text}"`;
}

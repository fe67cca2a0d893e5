import type { Request } from '../protocol/request-reader.ts';

/** What a queued command takes beside the bytes of its arguments, about. */
const COMMAND_BYTES = 256;
const ARGUMENT_BYTES = 128;

/** The commands between MULTI and EXEC. */
export class Transaction {
  readonly queued: Request[] = [];
  /** Memory of what is queued. */
  bytes = 0;
  /** A command was refused: EXEC will run none of them. */
  isSpoilt = false;
  /** Whether one of the commands writes. */
  writes = false;

  /** Returns the bytes that it takes. The arguments are copied: they are views of larger pieces. */
  queue(request: Request, writes: boolean): number {
    const copy = request.map((argument) => Buffer.from(argument));
    this.queued.push(copy);
    this.writes ||= writes;
    const bytes = copy.reduce((sum, { length }) => sum + length + ARGUMENT_BYTES, COMMAND_BYTES);
    this.bytes += bytes;
    return bytes;
  }
}

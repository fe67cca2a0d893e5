import type { Operation } from '../../verbs/index.ts';
import type { CommandContext } from '../command.ts';
import { OUTPUT_BYTES_MAX } from '../limits.ts';
import type { Request } from '../protocol/request-reader.ts';

const RUN_MIN = 2;
const RUN_FIRST = 16;
const RUN_MAX = 64;

/**
 * The fast path of pipelined reads: GETs that follow each other directly are served by one
 * `getMany`, in which the store interleaves the lookups. Nothing runs between them, so the order of
 * effects is that of single GETs.
 */
export class GetRun {
  /** Halved while values turn out large, of which a run returns only the first ones. */
  #lengthMax = RUN_FIRST;

  /** Requests of the run that begins at `first`; 0 if they are less than two. */
  lengthAt(requests: readonly Request[], first: number): number {
    const endMax = Math.min(requests.length, first + this.#lengthMax);
    let end = first;
    while (end < endMax && isGet(requests[end])) end++;
    return end - first < RUN_MIN ? 0 : end - first;
  }

  /**
   * Serves the run that begins at `first`, if there is one of at least two, and returns how many
   * requests it was. 0 leaves the request, and the error that it may cause, to the command itself.
   */
  *serve(requests: readonly Request[], first: number, context: CommandContext): Operation<number> {
    const length = this.lengthAt(requests, first);
    if (length === 0) return 0;
    const end = first + length;
    const keys = requests.slice(first, end).map((request) => request[1]);
    const { reply } = context;
    const before = reply.length;
    let values: (Uint8Array | undefined)[];
    try {
      values = yield* context.store.getMany(keys, { maxBytes: OUTPUT_BYTES_MAX });
    } catch {
      return 0;
    }
    const { totals } = context.server;
    for (const value of values) {
      if (value === undefined) totals.misses++;
      else totals.hits++;
      reply.bulkOrNull(value);
    }
    this.#adapt(values.length === keys.length ? reply.length - before : Number.POSITIVE_INFINITY);
    return values.length;
  }

  #adapt(bytes: number): void {
    if (bytes > OUTPUT_BYTES_MAX) this.#lengthMax = Math.max(RUN_MIN, this.#lengthMax >> 1);
    else this.#lengthMax = Math.min(RUN_MAX, this.#lengthMax * 2);
  }
}

function isGet(request: Request): boolean {
  if (request.length !== 2) return false;
  const name = request[0];
  // Upper and lower case of an ASCII letter differ in this one bit.
  return (
    name.length === 3 && (name[0] | 32) === 103 && (name[1] | 32) === 101 && (name[2] | 32) === 116
  );
}

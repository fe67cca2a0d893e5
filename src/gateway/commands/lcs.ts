import { parseInteger, ReplyError, readOptions } from '../arguments.ts';
import { type Command, type CommandContext, signature } from '../command.ts';
import { type Request, requestLimits } from '../protocol/request-reader.ts';

export const lcs: Command = {
  ...signature('lcs key1 key2 [LEN|IDX] [MINMATCHLEN length] [WITHMATCHLEN]', 'string', 'readonly'),
  summary: 'Finds the longest common subsequence of two values: its bytes, length or places.',
  *run(request, context) {
    const options = parseOptions(request);
    const { store, reply } = context;
    const a = (yield* store.get(request[1])) ?? new Uint8Array();
    const b = (yield* store.get(request[2])) ?? new Uint8Array();
    const table = new Table(a, b, context);
    if (options.length) {
      reply.integer(table.length);
      return;
    }
    const { common, matches } = table.trace();
    if (!options.places) {
      reply.bulk(common);
      return;
    }
    const shown = matches.filter(({ length }) => length >= options.lengthMin);
    reply.map(2);
    reply.bulk('matches');
    reply.array(shown.length);
    for (const match of shown) writeMatch(match, options.withLengths, context);
    reply.bulk('len');
    reply.integer(table.length);
  },
};

function writeMatch({ a, b, length }: Match, withLength: boolean, { reply }: CommandContext): void {
  reply.array(withLength ? 3 : 2);
  for (const at of [a, b]) {
    reply.array(2);
    reply.integer(at);
    reply.integer(at + length - 1);
  }
  if (withLength) reply.integer(length);
}

const OPTIONS = { LEN: 0, IDX: 0, WITHMATCHLEN: 0, MINMATCHLEN: 1 };

function parseOptions(request: Request) {
  const { LEN, IDX, WITHMATCHLEN, MINMATCHLEN } = readOptions(request, 3, OPTIONS);
  if (LEN !== undefined && IDX !== undefined) {
    throw new ReplyError('ERR If you want both the length and indexes, please just use IDX.');
  }
  return {
    length: LEN !== undefined,
    places: IDX !== undefined,
    withLengths: WITHMATCHLEN !== undefined,
    lengthMin: MINMATCHLEN === undefined ? 0 : Number(parseInteger(MINMATCHLEN[0])),
  };
}

/** A run of bytes that both values contain: where it begins in each. */
interface Match {
  a: number;
  b: number;
  length: number;
}

/** Lengths of the longest common subsequences of all pairs of prefixes. */
class Table {
  readonly #a: Uint8Array;
  readonly #b: Uint8Array;
  readonly #cells: Uint32Array;

  constructor(a: Uint8Array, b: Uint8Array, { server }: CommandContext) {
    this.#a = a;
    this.#b = b;
    const bytes = (a.length + 1) * (b.length + 1) * 4;
    if (bytes > requestLimits(server.limits.requestBytesMax).bulkBytesMax) {
      throw new ReplyError(
        'ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len',
      );
    }
    this.#cells = new Uint32Array(bytes / 4);
    const width = b.length + 1;
    for (let i = 1; i <= a.length; i++) {
      for (let j = 1; j <= b.length; j++) {
        const at = i * width + j;
        this.#cells[at] =
          a[i - 1] === b[j - 1]
            ? this.#cells[at - width - 1] + 1
            : Math.max(this.#cells[at - width], this.#cells[at - 1]);
      }
    }
  }

  get length(): number {
    return this.#cells[this.#cells.length - 1];
  }

  /** The subsequence that Redis would choose, and its runs from the last to the first. */
  trace(): { common: Buffer; matches: Match[] } {
    const [a, b] = [this.#a, this.#b];
    const width = b.length + 1;
    const common = Buffer.alloc(this.length);
    const matches: Match[] = [];
    let open = false;
    for (let i = a.length, j = b.length, left = common.length; i > 0 && j > 0; ) {
      if (a[i - 1] === b[j - 1]) {
        common[--left] = a[i - 1];
        i--;
        j--;
        if (!open) matches.push({ a: i, b: j, length: 0 });
        open = true;
        const match = matches[matches.length - 1];
        match.a = i;
        match.b = j;
        match.length++;
      } else {
        open = false;
        if (this.#cells[(i - 1) * width + j] > this.#cells[i * width + j - 1]) i--;
        else j--;
      }
    }
    return { common, matches };
  }
}

/**
 * Redis's glob patterns over bytes: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, and `\` to quote a
 * character.
 *
 * Matching takes at most linear time in the text for each `*`, never exponential: a mismatch goes
 * back only to the latest `*`. That is enough, because whatever an earlier `*` could give up, the
 * latest one could match as well.
 */

const ASTERISK = 42;
const QUESTION = 63;
const BACKSLASH = 92;
const BRACKET_OPEN = 91;
const BRACKET_CLOSE = 93;
const CARET = 94;
const HYPHEN = 45;

/** One byte, a set of bytes as a 256-bit mask, or any number of any bytes. */
type Step = { kind: 'byte'; byte: number } | { kind: 'set'; bits: Uint32Array } | { kind: 'many' };

export class Glob {
  readonly #steps: readonly Step[];
  readonly #ignoreCase: boolean;

  constructor(pattern: Uint8Array, options: { ignoreCase?: boolean } = {}) {
    this.#ignoreCase = options.ignoreCase ?? false;
    this.#steps = compile(this.#ignoreCase ? Buffer.from(pattern).map(lower) : pattern);
  }

  /** Whether the pattern is just `*`. */
  get matchesAll(): boolean {
    return this.#steps.length === 1 && this.#steps[0].kind === 'many';
  }

  /** The literal bytes that every match begins with; may be empty. */
  get prefix(): Uint8Array {
    const bytes: number[] = [];
    for (const step of this.#ignoreCase ? [] : this.#steps) {
      if (step.kind !== 'byte') break;
      bytes.push(step.byte);
    }
    return Uint8Array.from(bytes);
  }

  matches(text: Uint8Array): boolean {
    const steps = this.#steps;
    let step = 0;
    let at = 0;
    let retryStep = -1;
    let retryAt = 0;
    while (at < text.length) {
      if (step < steps.length && steps[step].kind === 'many') {
        retryStep = ++step;
        retryAt = at;
      } else if (step < steps.length && this.#accepts(steps[step], text[at])) {
        step++;
        at++;
      } else if (retryStep >= 0) {
        step = retryStep;
        at = ++retryAt;
      } else {
        return false;
      }
    }
    while (step < steps.length && steps[step].kind === 'many') step++;
    return step === steps.length;
  }

  #accepts(step: Step, byte: number): boolean {
    const wanted = this.#ignoreCase ? lower(byte) : byte;
    if (step.kind === 'byte') return step.byte === wanted;
    if (step.kind === 'set') return (step.bits[wanted >>> 5] & (1 << (wanted & 31))) !== 0;
    return false;
  }
}

function lower(byte: number): number {
  return byte >= 65 && byte <= 90 ? byte + 32 : byte;
}

function compile(pattern: Uint8Array): Step[] {
  const steps: Step[] = [];
  let at = 0;
  while (at < pattern.length) {
    const byte = pattern[at];
    if (byte === ASTERISK) {
      if (steps.at(-1)?.kind !== 'many') steps.push({ kind: 'many' });
      at++;
    } else if (byte === QUESTION) {
      steps.push({ kind: 'set', bits: new Uint32Array(8).fill(0xffffffff) });
      at++;
    } else if (byte === BRACKET_OPEN) {
      const { bits, next } = compileSet(pattern, at + 1);
      steps.push({ kind: 'set', bits });
      at = next;
    } else {
      // A backslash at the very end stands for itself.
      if (byte === BACKSLASH && at + 1 < pattern.length) at++;
      steps.push({ kind: 'byte', byte: pattern[at] });
      at++;
    }
  }
  return steps;
}

/** `at` is after the opening bracket. An unclosed set ends with the pattern. */
function compileSet(pattern: Uint8Array, at: number): { bits: Uint32Array; next: number } {
  const bits = new Uint32Array(8);
  const negated = pattern[at] === CARET;
  let next = negated ? at + 1 : at;
  while (next < pattern.length && pattern[next] !== BRACKET_CLOSE) {
    let first = pattern[next];
    let last = first;
    if (first === BACKSLASH && next + 1 < pattern.length) {
      first = last = pattern[next + 1];
      next += 2;
    } else if (pattern[next + 1] === HYPHEN && next + 2 < pattern.length) {
      last = pattern[next + 2];
      next += 3;
    } else {
      next++;
    }
    addRange(bits, Math.min(first, last), Math.max(first, last));
  }
  if (negated) for (let word = 0; word < bits.length; word++) bits[word] = ~bits[word];
  return { bits, next: next + 1 };
}

function addRange(bits: Uint32Array, first: number, last: number): void {
  for (let byte = first; byte <= last; byte++) bits[byte >>> 5] |= 1 << (byte & 31);
}

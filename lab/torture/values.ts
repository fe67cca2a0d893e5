import type { Value } from '../../src/store/api.ts';
import { mix32 } from '../workloads/index.ts';

/** What a value says about itself: its key or register, the number of its write, and a tag. */
interface ValueIdentity {
  key: number;
  attempt: number;
  tag: number;
}

const HEADER_BYTES = 16;
const MAGIC = 0x57_65_6c_6c;

/** All values differ, also in length. The first bytes identify a value. */
export function makeValue({ key, attempt, tag }: ValueIdentity): Value {
  const seed = mix32((mix32(key) + Math.imul(attempt, 0x9e3779b9) + tag) >>> 0);
  const bytes = lengthOf(seed);
  if ((seed & 7) === 0) return textValue(key, attempt, tag, bytes);
  const words = new Int32Array(Math.ceil(bytes / 4));
  words.set([MAGIC, key, attempt, tag]);
  for (let i = 4; i < words.length; i++) words[i] = mix32((seed + i) >>> 0);
  // Bit patterns that a copy by Float64 elements must keep: signalling NaNs and V8's hole.
  for (let i = 4; i + 1 < words.length; i += 6) {
    words[i] |= 1;
    words[i + 1] = (words[i + 1] & 0x8007ffff) | 0x7ff00000;
    if ((words[i] & 6) === 6) words[i] = words[i + 1] = 0xfff7ffff | 0;
  }
  return new Uint8Array(words.buffer, 0, Math.max(HEADER_BYTES, bytes));
}

function textValue(key: number, attempt: number, tag: number, bytes: number): string {
  const head = `${key}:${attempt}:${tag}:`;
  const filler = attempt % 2 === 0 ? 'stepwell ' : 'баоли बावड़ी ';
  return head + filler.repeat(Math.ceil(bytes / filler.length));
}

/** Mostly a few lines of memory, sometimes a chain of blocks. */
function lengthOf(seed: number): number {
  const choice = (seed >>> 8) % 256;
  const within = seed >>> 16;
  if (choice < 180) return HEADER_BYTES + (within % 100);
  if (choice < 230) return HEADER_BYTES + (within % 900);
  if (choice < 254) return HEADER_BYTES + (within % 4000);
  return 15_000 + (within % 25_000);
}

/** Undefined unless `makeValue` made the value and all of it is intact. */
export function identify(value: Value): ValueIdentity | undefined {
  const identity = typeof value === 'string' ? ofText(value) : ofBytes(value);
  return identity && sameValue(makeValue(identity), value) ? identity : undefined;
}

function ofText(text: string): ValueIdentity | undefined {
  const parts = /^(\d+):(\d+):(\d+):/.exec(text);
  if (parts === null) return undefined;
  const [key, attempt, tag] = parts.slice(1).map(Number);
  return { key, attempt, tag };
}

function ofBytes(bytes: Uint8Array): ValueIdentity | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES);
  if (view.getInt32(0, true) !== MAGIC) return undefined;
  const [key, attempt, tag] = [4, 8, 12].map((at) => view.getInt32(at, true));
  return { key, attempt, tag };
}

export function sameValue(a: Value | undefined, b: Value | undefined): boolean {
  if (typeof a !== 'object' || typeof b !== 'object') return a === b;
  return Buffer.compare(a, b) === 0;
}

/** A short description of a value for error messages. */
export function showValue(value: Value | undefined): string {
  if (value === undefined) return 'absent';
  const identity = typeof value === 'string' ? ofText(value) : ofBytes(value);
  const kind = typeof value === 'string' ? 'text' : 'bytes';
  if (identity === undefined) return `${value.length} ${kind} of unknown origin`;
  const { key, attempt, tag } = identity;
  const whole = identify(value) === undefined ? ', DAMAGED' : '';
  return `write ${attempt} of ${key} (tag ${tag}, ${value.length} ${kind}${whole})`;
}

const LONG_KEY = 300;
const VERY_LONG_KEY = 17_000;

export function ownedName(key: number): string {
  const name = `k${key}`;
  if (key % 64 === 63) return name.padEnd(LONG_KEY, '.');
  // The record is too long for a slot's length field.
  if (key % 512 === 100) return name.padEnd(VERY_LONG_KEY, '.');
  return key % 8 === 5 ? name.padEnd(30, '-') : name;
}

export const registerName = (register: number) => `r${register}`;
export const counterName = (counter: number) => `c${counter}`;
export const tokenName = (token: number) => `t${token}`;

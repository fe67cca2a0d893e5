import {
  type Address,
  Batch,
  CAS_BYTES,
  FAA_BYTES,
  type Operation,
  Scratch,
} from '../verbs/index.ts';

/**
 * Single-word steps for the rare paths of the pool (attach, catalog, chunks, recovery), where
 * clarity beats speed: one word, one round trip, 64-bit values as BigInt. Every call has its own
 * batch and scratch, so interleaved operations do not disturb each other.
 */
export const control = {
  *load(address: Address): Operation<bigint> {
    const words = new Scratch(8);
    yield new Batch().read(address, 8, words, 0);
    return BigInt.asUintN(64, words.i64[0]);
  },

  *store(address: Address, value: bigint): Operation<void> {
    const words = new Scratch(8);
    words.i64[0] = BigInt.asIntN(64, value);
    yield new Batch().write(address, 8, words, 0);
  },

  /** Returns whether the word was `expected` and is now `desired`. */
  *swap(address: Address, expected: bigint, desired: bigint): Operation<boolean> {
    const words = new Scratch(CAS_BYTES);
    words.i64[0] = BigInt.asIntN(64, expected);
    words.i64[1] = BigInt.asIntN(64, desired);
    yield new Batch().cas(address, words, 0);
    return words.i64[2] === words.i64[0];
  },

  /** Returns the value before the addition. */
  *add(address: Address, addend: bigint): Operation<bigint> {
    const words = new Scratch(FAA_BYTES);
    words.i64[0] = addend;
    yield new Batch().faa(address, words, 0);
    return BigInt.asUintN(64, words.i64[1]);
  },

  *readBytes(address: Address, bytes: number): Operation<Uint8Array> {
    const scratch = new Scratch(bytes);
    yield new Batch().read(address, bytes, scratch, 0);
    return scratch.u8.subarray(0, bytes);
  },

  *readView(address: Address, bytes: number): Operation<DataView> {
    const { buffer, byteOffset } = yield* control.readBytes(address, bytes);
    return new DataView(buffer, byteOffset, bytes);
  },

  *writeBytes(address: Address, data: Uint8Array): Operation<void> {
    const scratch = new Scratch(data.length);
    scratch.u8.set(data);
    yield new Batch().write(address, data.length, scratch, 0);
  },

  *pause(microseconds: number): Operation<void> {
    yield new Batch().pause(microseconds, new Scratch(8));
  },
};

/** Fields packed in a 64-bit word, from the lowest bit up. */
export function packFields(values: readonly number[], bits: readonly number[]): bigint {
  return values.reduceRight(
    (word, value, i) => (word << BigInt(bits[i])) | BigInt.asUintN(bits[i], BigInt(value)),
    0n,
  );
}

export function unpackFields(word: bigint, bits: readonly number[]): number[] {
  let rest = word;
  return bits.map((width) => {
    const value = Number(BigInt.asUintN(width, rest));
    rest >>= BigInt(width);
    return value;
  });
}

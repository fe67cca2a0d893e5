import { StepwellError } from '../../src/errors.ts';
import {
  type Address,
  offsetOf,
  REGION_STRIDE,
  regionOf,
  type Scratch,
} from '../../src/verbs/index.ts';

export const LINE_BYTES = 64;
const WORD_BYTES = 8;

/** One region of a memory node. */
class Region {
  readonly u8: Uint8Array;
  readonly i32: Int32Array;
  readonly f64: Float64Array;

  constructor(bytes: number) {
    const memory = new ArrayBuffer(bytes);
    this.u8 = new Uint8Array(memory);
    this.i32 = new Int32Array(memory);
    this.f64 = new Float64Array(memory);
  }
}

/** Answers a call on a memory node's CPU: writes the reply over the request. */
export type CallHandler = (scratch: Scratch, offset: number) => void;

interface MemoryShape {
  regions: number;
  regionBytes: number;
  /**
   * Number of memory nodes. Region r is on node r modulo `nodes`, unless `nodeOf` says otherwise.
   */
  nodes?: number;
  nodeOf?: (region: number) => number;
}

/** The bytes of the memory nodes. One thread runs everything, so accesses to a line are atomic. */
export class SimulatedMemory {
  readonly nodes: number;
  readonly regionBytes: number;
  /** By node: what answers its calls. */
  readonly handlers: (CallHandler | undefined)[] = [];
  readonly #regions: readonly Region[];
  readonly #nodes: readonly number[];

  constructor({
    regions,
    regionBytes,
    nodes = 1,
    nodeOf = (region) => region % nodes,
  }: MemoryShape) {
    this.nodes = nodes;
    this.regionBytes = regionBytes;
    this.#regions = Array.from({ length: regions }, () => new Region(regionBytes));
    this.#nodes = this.#regions.map((_, region) => nodeOf(region));
  }

  /** All regions exist from the start; a pool starts to use them one by one. */
  extend(regions: number): void {
    if (regions <= this.#regions.length) return;
    throw new StepwellError('SW_POOL_FULL', 'the pool is full: all regions are in use');
  }

  reserve(): void {}

  nodeOf(address: Address): number {
    return this.#nodes[regionOf(address)] ?? 0;
  }

  /** Raises SW_POOL_CORRUPT for a verb outside of the memory, as every fabric does. */
  check(address: Address, bytes: number): void {
    const region = regionOf(address);
    if (this.#regions[region] === undefined) {
      throw new StepwellError('SW_POOL_CORRUPT', `an address names region ${region}, not in pool`);
    }
    if (address - region * REGION_STRIDE + bytes > this.regionBytes) {
      throw new StepwellError('SW_POOL_CORRUPT', `verb beyond region ${region}: ${address}`);
    }
  }

  put(address: Address, bytes: Uint8Array): void {
    this.#regions[regionOf(address)].u8.set(bytes, offsetOf(address));
  }

  window(address: Address, bytes: number): Uint8Array {
    const offset = offsetOf(address);
    return this.#regions[regionOf(address)].u8.subarray(offset, offset + bytes);
  }

  read(address: Address, bytes: number, scratch: Scratch, local: number): void {
    const region = this.#regions[regionOf(address)];
    const from = offsetOf(address) >>> 3;
    const to = local >> 3;
    for (let i = 0; i < bytes >> 3; i++) scratch.f64[to + i] = region.f64[from + i];
  }

  write(address: Address, bytes: number, scratch: Scratch, local: number): void {
    const region = this.#regions[regionOf(address)];
    const offset = offsetOf(address);
    if (((bytes | local | offset) & (WORD_BYTES - 1)) !== 0) {
      for (let i = 0; i < bytes; i++) region.u8[offset + i] = scratch.u8[local + i];
      return;
    }
    const to = offset >>> 3;
    const from = local >> 3;
    for (let i = 0; i < bytes >> 3; i++) region.f64[to + i] = scratch.f64[from + i];
  }

  /** In 32-bit halves: a BigInt would be an allocation. */
  compareAndSwap(address: Address, { i32 }: Scratch, local: number): void {
    const memory = this.#regions[regionOf(address)].i32;
    const at = offsetOf(address) >>> 2;
    const words = local >> 2;
    const low = memory[at];
    const high = memory[at + 1];
    if (low === i32[words] && high === i32[words + 1]) {
      memory[at] = i32[words + 2];
      memory[at + 1] = i32[words + 3];
    }
    i32[words + 4] = low;
    i32[words + 5] = high;
  }

  fetchAndAdd(address: Address, { i32 }: Scratch, local: number): void {
    const memory = this.#regions[regionOf(address)].i32;
    const at = offsetOf(address) >>> 2;
    const words = local >> 2;
    const low = memory[at];
    const high = memory[at + 1];
    const sum = (low >>> 0) + (i32[words] >>> 0);
    memory[at] = sum | 0;
    memory[at + 1] = high + i32[words + 1] + (sum >= 2 ** 32 ? 1 : 0);
    i32[words + 2] = low;
    i32[words + 3] = high;
  }
}

/** How many lines of the memory a verb touches. */
export function linesOf(address: Address, bytes: number): number {
  const first = offsetOf(address) & (LINE_BYTES - 1);
  return Math.ceil((first + bytes) / LINE_BYTES);
}

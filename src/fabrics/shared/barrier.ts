import { StepwellError } from '../../errors.ts';

/** (module (func (export "fence") atomic.fence)) */
const FENCE_MODULE = Uint8Array.of(
  ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
  ...[0x01, 0x04, 0x01, 0x60, 0x00, 0x00],
  ...[0x03, 0x02, 0x01, 0x00],
  ...[0x07, 0x09, 0x01, 0x05, 0x66, 0x65, 0x6e, 0x63, 0x65, 0x00, 0x00],
  ...[0x0a, 0x07, 0x01, 0x05, 0x00, 0xfe, 0x03, 0x00, 0x0b],
);

/** Orders all loads and stores before it and all behind it. */
export type Barrier = () => void;

/**
 * What must stand between two verbs on this processor, or undefined where it keeps their order but
 * for a load that passes an earlier store (x86, total store order).
 *
 * ARM lets any two plain accesses pass one another, and plain ones pass the store of an atomic
 * behind which they stand. JavaScript has no fence for plain accesses; WebAssembly's `atomic.fence`
 * compiles to `dmb ish` there. Raises SW_UNSUPPORTED for processors about which nothing is known.
 */
export function barrierOf(arch: string = process.arch): Barrier | undefined {
  if (arch === 'x64') return undefined;
  if (arch === 'arm64') return wasmFence();
  const why = `pools need x86-64 or, experimentally, arm64, not ${arch}`;
  throw new StepwellError('SW_UNSUPPORTED', `${why}; keep the pool on a memory node (tcp://)`);
}

/** Node's types know the name only. */
interface Wasm {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: { fence: Barrier } };
}

function wasmFence(): Barrier {
  const { Module, Instance } = (globalThis as unknown as { WebAssembly: Wasm }).WebAssembly;
  return new Instance(new Module(FENCE_MODULE)).exports.fence;
}

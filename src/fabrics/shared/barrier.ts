import { StepwellError } from '../../errors.ts';

/** (module (func (export "fence") atomic.fence)) */
const FENCE_MODULE = [
  '0061736d 01000000',
  '01 04 01 60 00 00',
  '03 02 01 00',
  '07 09 01 05 66656e6365 00 00',
  '0a 07 01 05 00 fe0300 0b',
];

/** Orders all earlier loads and stores before all later ones. */
export type Barrier = () => void;

/**
 * The fence that must stand between two verbs on this processor. Undefined where the processor
 * keeps their order, except that a load may pass an earlier store (x86, total store order).
 *
 * ARM lets any two plain accesses pass one another, and lets a plain access pass the store of an
 * atomic before it. JavaScript has no fence for plain accesses; WebAssembly's `atomic.fence`
 * compiles to `dmb ish` there. Raises SW_UNSUPPORTED for an unknown processor.
 */
export function barrierOf(arch: string = process.arch): Barrier | undefined {
  if (arch === 'x64') return undefined;
  if (arch === 'arm64') return wasmFence();
  const why = `pools need x86-64 or, experimentally, arm64, not ${arch}`;
  throw new StepwellError('SW_UNSUPPORTED', `${why}; keep the pool on a memory node (tcp://)`);
}

/** Node's types declare only the name WebAssembly. */
interface Wasm {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { exports: { fence: Barrier } };
}

function wasmFence(): Barrier {
  const { Module, Instance } = (globalThis as unknown as { WebAssembly: Wasm }).WebAssembly;
  const bytes = Buffer.from(FENCE_MODULE.join('').replaceAll(' ', ''), 'hex');
  return new Instance(new Module(bytes)).exports.fence;
}

/** Where processes and threads of the product and of the workbench begin, apart from tests. */
export const PROGRAMS: readonly string[] = [
  'src/cli/main.ts',
  'src/cli/bench/worker.ts',
  'src/fabrics/shared/selftest/litmus-thread.ts',
  'src/fabrics/tcp/node/node-worker.ts',
  'src/fabrics/ucx/node/node-worker.ts',
  'src/fabrics/ucx/node/verb-loop.ts',
  'lab/main.ts',
  'lab/apps/jobs/worker.ts',
  'lab/bench/worker.ts',
  'lab/full-pool/worker.ts',
  'lab/near/reader.ts',
  'lab/near/writer.ts',
  'lab/torture/jobs/worker.ts',
  'lab/torture/network/client-process.ts',
  'lab/torture/worker.ts',
];

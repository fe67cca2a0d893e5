/** A process of `stopped-holder`: stops itself in the middle of a call, or measures one. */
import { SharedFabric } from '../../src/fabrics/shared/shared-fabric.ts';
import { openSync } from '../../src/store/open.ts';
import { Batch, CAS, FAA, PAUSE, READ } from '../../src/verbs/index.ts';
import { monotonic } from '../support/clock.ts';

/** A call on a key. */
export interface Call {
  kind: 'get' | 'set' | 'delete' | 'scan';
  key: string;
}

/** With `verbs`, the process stops after this many verbs of the call. */
export interface Task {
  url: string;
  call: Call;
  verbs?: number;
}

export interface Report {
  ms: number;
  /** Verbs of the call. */
  verbs: number;
  error?: string;
}

const LOCK_TIMEOUT_MS = 30_000;
const SCAN_LIMIT = 10;

process.on('message', (task: Task) => {
  process.send?.(perform(task));
});

function perform({ url, call, verbs = Number.POSITIVE_INFINITY }: Task): Report {
  const store = openSync(url, { create: false, values: 'utf8', lockTimeoutMs: LOCK_TIMEOUT_MS });
  // The call does not count the client's first READs, such as that of the root.
  if (verbs !== Number.POSITIVE_INFINITY) store.get(call.key);
  const counting = new StopsAfter(verbs);
  const began = monotonic();
  let error: string | undefined;
  try {
    if (call.kind === 'get') store.get(call.key);
    else if (call.kind === 'set') store.set(call.key, 'new');
    else if (call.kind === 'delete') store.delete(call.key);
    else for (const _ of store.scan({ gte: call.key, limit: SCAN_LIMIT }));
  } catch (raised) {
    error = (raised as Error).message;
  }
  const ms = Number(monotonic() - began) / 1e6;
  counting.end();
  store.close();
  return { ms, verbs: counting.verbs, ...(error !== undefined && { error }) };
}

/** Counts the verbs of this process, and stops it after `limit` of them. */
class StopsAfter {
  verbs = 0;
  readonly #execute = SharedFabric.prototype.execute;

  constructor(limit: number) {
    const counting = this;
    const execute = this.#execute;
    SharedFabric.prototype.execute = function (this: SharedFabric, batch) {
      const left = limit - counting.verbs;
      counting.verbs += batch.length;
      if (left <= 0 || batch.length < left) return execute.call(this, batch);
      const rest = restOf(batch, left);
      const { length } = batch;
      batch.length = left;
      execute.call(this, batch);
      batch.length = length;
      process.kill(process.pid, 'SIGSTOP');
      if (rest.length > 0) execute.call(this, rest);
    };
  }

  end(): void {
    SharedFabric.prototype.execute = this.#execute;
  }
}

/** The verbs of a batch from row `first` on. */
function restOf(batch: Batch, first: number): Batch {
  const rest = new Batch();
  for (let row = first; row < batch.length; row++) {
    const [address, bytes] = [batch.address[row], batch.bytes[row]];
    const [scratch, offset] = [batch.scratch[row], batch.offset[row]];
    const kind = batch.kind[row];
    if (kind === READ) rest.read(address, bytes, scratch, offset);
    else if (kind === CAS) rest.cas(address, scratch, offset);
    else if (kind === FAA) rest.faa(address, scratch, offset);
    else if (kind === PAUSE) rest.pause(bytes, scratch);
    else rest.write(address, bytes, scratch, offset);
  }
  return rest;
}

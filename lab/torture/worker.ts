/** A worker of the torture: a child process, or a thread on a `memory:` pool. */
import { setImmediate } from 'node:timers/promises';
import { isMainThread, parentPort, workerData } from 'node:worker_threads';
import { kindNamed } from '../../src/indexes/kinds.ts';
import { WITHOUT } from '../../src/indexes/substrates/parameters.ts';
import type { PoolHandle } from '../../src/store/api.ts';
import { checkSync, openAloneSync } from '../../src/store/open.ts';
import { Prng } from '../workloads/index.ts';
import { withCanary } from './canary.ts';
import { DONE, ExpectedValues, ROW, RUNNING, STARTING } from './expected-values.ts';
import { OracleFile } from './oracle-file.ts';
import { patientStore } from './patient-store.ts';
import { Session } from './session/session.ts';
import { Violation } from './session/tested-store.ts';
import type { RoundSettings } from './settings.ts';
import { dieBetweenVerbs } from './suicide.ts';

export interface WorkOrder {
  role: 'work' | 'verify';
  settings: RoundSettings;
  row: number;
  incarnation: number;
  /** For threads: the pool and the oracle. */
  handle?: PoolHandle;
  memory?: SharedArrayBuffer;
}

/** What the verifying process found. */
export interface Verdict {
  subtables: number;
  records: number;
  slots: number;
  leftoverBlocks: number;
}

/** Exit codes. */
const VIOLATED = 3;
const BROKEN = 4;

function isOrdered({ index }: RoundSettings): boolean {
  return kindNamed(index.kind).manifest.ordered;
}

/** Half of the workers have a near cache, if the index can prove its entries. */
function nearEntries({ settings }: WorkOrder, random: Prng): number {
  const { proves } = kindNamed(settings.index.kind).manifest;
  return proves && random.below(2) === 0 ? settings.shape.keys >> 1 : 0;
}

async function work(order: WorkOrder, oracle: ExpectedValues): Promise<void> {
  const { settings, row, incarnation } = order;
  const random = Prng.fromSeed(settings.seed).fork(1000 * row + incarnation);
  oracle.setRow(row, ROW.pid, process.pid);
  oracle.setRow(row, ROW.incarnation, incarnation);
  oracle.setRow(row, ROW.state, STARTING);
  const store = openAloneSync(order.handle ?? settings.url, {
    ...openOptions(order),
    nearCache: nearEntries(order, random.fork(2)),
  });
  try {
    const patient = patientStore(store, () => oracle.fullAllowed && !oracle.stopping);
    const tested = withCanary(patient, settings.canary);
    const session = new Session(
      { store: tested, oracle, row, random },
      settings.mix,
      isOrdered(settings),
    );
    session.adopt(row);
    if (settings.suicideEvery > 0) dieBetweenVerbs(random.fork(1), settings.suicideEvery);
    oracle.setRow(row, ROW.state, RUNNING);
    while (!oracle.stopping && oracle.row(row, ROW.heartbeat) < settings.operations) {
      for (let i = random.below(settings.burst); i >= 0 && !oracle.stopping; i--) session.step();
      await setImmediate();
    }
    oracle.setRow(row, ROW.state, DONE);
  } catch (error) {
    oracle.stop();
    throw error;
  } finally {
    store.close();
  }
}

function openOptions({ settings, row, handle }: WorkOrder) {
  const { poolBytes: size, regionBytes: regionSize, without } = settings;
  const index = Object.assign({ [WITHOUT]: without }, settings.index);
  // Processes race to create pool and store; threads get both.
  const create = handle === undefined;
  return { size, regionSize, index, create, client: `torture ${row}` };
}

/** Verifies a pool to which no other client is attached. Throws a Violation. */
export function verify(order: WorkOrder, oracle: ExpectedValues): Verdict {
  const { settings } = order;
  const random = Prng.fromSeed(settings.seed).fork(-1);
  const place = order.handle ?? settings.url;
  // In half of the runs, the check is the first to find what dead workers left unfinished.
  const checkFirst = random.below(2) === 0;
  if (checkFirst) checkClean(place);
  const store = openAloneSync(place, openOptions({ ...order, handle: place }));
  try {
    const session = new Session(
      { store, oracle, row: 0, random },
      settings.mix,
      isOrdered(settings),
    );
    for (let row = 0; row < settings.shape.rows; row++) session.adopt(row);
    session.verifyAll();
    checkClean(place);
    const { subtables, records, slots } = store.stats();
    session.exerciseAll();
    session.verifyAll();
    store.close();
    // No other client exists, so blocks that no key reaches are lost: sweep them.
    const { leftover } = checkClean(place, true);
    // After the sweep, any block that no key reaches is a problem.
    checkClean(place);
    return { subtables, records, slots, leftoverBlocks: leftover.blocks };
  } finally {
    store.close();
  }
}

function checkClean(place: PoolHandle, sweep = false) {
  const report = checkSync(place, { sweep });
  if (report.problems.length > 0) {
    throw new Violation(`checkSync: ${report.problems.slice(0, 5).join('; ')}`);
  }
  return report;
}

async function obey(order: WorkOrder): Promise<Verdict | undefined> {
  const { settings, memory, role } = order;
  const file = memory ? undefined : OracleFile.attach(settings.oracle, settings.shape);
  const oracle = file?.values ?? new ExpectedValues(memory as SharedArrayBuffer, settings.shape);
  try {
    if (role === 'verify') return verify(order, oracle);
    await work(order, oracle);
    return undefined;
  } finally {
    file?.close();
  }
}

function describeFailure({ row, incarnation, role }: WorkOrder, error: unknown): string {
  const { name, message, stack } = error as Error;
  const text = error instanceof Violation ? `${name}: ${message}` : stack;
  return `${role} row ${row}.${incarnation} pid ${process.pid}: ${text}\n${stack}\n`;
}

async function serveProcess(text: string): Promise<void> {
  const order = JSON.parse(text) as WorkOrder;
  try {
    const verdict = await obey(order);
    if (verdict !== undefined) process.stdout.write(JSON.stringify(verdict));
  } catch (error) {
    process.stderr.write(describeFailure(order, error));
    process.exitCode = error instanceof Violation ? VIOLATED : BROKEN;
  }
}

async function serveThread(order: WorkOrder): Promise<void> {
  try {
    parentPort?.postMessage({ verdict: await obey(order) });
  } catch (error) {
    parentPort?.postMessage({ failure: describeFailure(order, error) });
  }
}

const WORK_FLAG = '--torture-order';
if (!isMainThread && (workerData as WorkOrder | undefined)?.settings) await serveThread(workerData);
else if (process.argv[2] === WORK_FLAG) await serveProcess(process.argv[3]);

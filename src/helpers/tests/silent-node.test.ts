import assert from 'node:assert/strict';
import { test } from 'node:test';
import { open } from '../../store/open.ts';
import { NodeProcess } from '../../store/tests/support/processes/remote-processes.ts';
import { fixedWindow, getOrSet, lease, semaphore, tryLease, watch } from '../index.ts';

const ABORTED = { code: 'SW_ABORTED', cause: 'enough' };
/** Longer than the test: what ends before was ended by its signal. */
const PATIENT = { timeoutMs: 60_000 };

test('what waits for a node that fell silent ends when it is aborted', async (t) => {
  const node = await NodeProcess.start(t, ['--size', '32m']);
  const url = `tcp://127.0.0.1:${node.port}`;
  const store = await open(url, { ...PATIENT, index: 'chime', values: 'json' });
  t.after(() => store.close());
  await store.set('k', 1);
  const limiter = fixedWindow(store, { limit: 10, windowMs: 60_000 });
  const warnings: Error[] = [];
  const warned = (warning: Error) => warnings.push(warning);
  process.on('warning', warned);
  t.after(() => process.off('warning', warned));
  const aborting = new AbortController();
  const { signal } = aborting;
  const watching = watch(store, { key: 'k' }, { signal, initial: true, everyMs: 1 });
  await watching.next();
  const scan = store.scan({ signal });
  const begun = store.keys({ signal });
  await begun.next();
  const cut = store.withSignal(signal);
  const walk = cut.entries();
  const hashed = await open(url, { ...PATIENT, store: 'hashed', index: 'race', values: 'json' });
  t.after(() => hashed.close());
  const many = Array.from({ length: 200 }, (_, i) => [`m${i}`, i] as const);
  const keys = many.map(([key]) => key);

  await node.signal('SIGSTOP');
  const call = store.get('k');
  let loads = 0;
  const load = () => ++loads;
  const waiting = {
    'scan.next': scan.next(),
    'scan.nextMany': scan.nextMany(10),
    'a scan that has begun': begun.nextMany(10),
    watch: watching.next(),
    lease: lease(store, 'l', { ttlMs: 60_000, signal }),
    semaphore: semaphore(store, 's', { permits: 1, ttlMs: 60_000, signal }),
    limiter: limiter.wait('r', 1, { signal }),
    getOrSet: getOrSet(store, 'absent', load, { signal }),
    'getOrSet, stale': getOrSet(store, 'k', load, { signal, ttlMs: 1000, staleMs: 1000 }),
    get: cut.get('k'),
    getMany: cut.getMany(keys),
    set: cut.set('k', 1),
    setMany: hashed.withSignal(signal).setMany(many),
    deleteMany: cut.deleteMany(['no', 'nor']),
    size: cut.size(),
    'a call of a namespace': cut.namespace('n').has('k'),
    'a scan of a handle with a signal': cut.scan().next(),
    'a walk': walk.next(),
    open: open(url, { ...PATIENT, store: 'other', signal }),
  };
  const ended = Object.entries(waiting).map(([name, each]) =>
    assert.rejects(Promise.resolve(each), ABORTED, name),
  );
  aborting.abort('enough');
  await Promise.all(ended);
  await assert.rejects(scan.next(), ABORTED);

  await node.signal('SIGCONT');
  assert.equal(await call, 1, 'the same session goes on');
  // What was under way has ended by now, or ends before what comes behind it: nothing is held.
  const held = await lease(store, 'l', { ttlMs: 60_000, waitMs: 5000 });
  assert.ok(await held.release());
  const permit = await semaphore(store, 's', { permits: 1, ttlMs: 60_000, waitMs: 5000 });
  assert.ok(await permit.release());
  assert.ok(await tryLease(store, 'l', { ttlMs: 60_000 }));
  assert.equal(await getOrSet(store, 'absent', () => 7, { waitMs: 5000 }), 7);
  assert.equal(loads, 0, 'no load begins behind the back of its caller');
  await assert.rejects(cut.get('k'), ABORTED);
  // What an aborted call had begun it ends, and begins no more.
  const stored = await hashed.deleteMany(keys);
  assert.ok(stored < many.length, `${stored} records were stored behind the back of the caller`);
  assert.equal(await store.size(), 2);
  assert.deepEqual(warnings, [], 'many calls may wait for one signal');
});

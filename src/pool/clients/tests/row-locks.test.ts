/** Clients whose threads cannot be asked about: the locks of their rows tell whether they live. */
import assert from 'node:assert/strict';
import { copyFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { LOCK_REFUSED, LOCK_TAKEN } from '../../../fabrics/shared/file-locks.ts';
import type { MappedSource } from '../../../fabrics/shared/mapped-source.ts';
import { INDEX_KINDS, refuseBlind } from '../../../indexes/kinds.ts';
import { createSync } from '../../../store/open.ts';
import { attachFile } from '../../../store/places/pool-files.ts';
import { Stepped } from '../../../store/tests/support/by-hand.ts';
import { throwsCode } from '../../../store/tests/support/codes.ts';
import { freshUrl, pathOf, SMALL } from '../../../store/tests/support/pools.ts';
import type { Operation } from '../../../verbs/index.ts';
import { LocalPool } from '../../local-pool.ts';
import type { ClientRow } from '../membership.ts';
import { currentThread } from '../thread-identity.ts';

const skip = process.platform === 'linux' ? false : 'needs Linux';
const self = currentThread();
/** Of another pid namespace; LXC and systemd-nspawn give a container another boot id, too. */
const ELSEWHERE = { ...self, namespace: self.namespace ^ 1, boot: self.boot ^ 1 };

interface Client {
  pool: LocalPool;
  /** As the kernel ends it: nothing is written, its descriptors are closed. */
  die(): void;
}

function newClient(t: TestContext, url: string, thread = self): Client {
  const { fabric, parameters, source, die } = attached(t, url);
  return { pool: new LocalPool(fabric, parameters, source, thread), die };
}

function attached(t: TestContext, url: string) {
  const opened = attachFile(pathOf(url), url);
  const source = opened.source as MappedSource;
  let open = true;
  const die = () => {
    if (open) source.close();
    open = false;
  };
  t.after(die);
  return { ...opened, source, locks: source.locks, die };
}

function newPool(t: TestContext, maxClients = 4): string {
  const url = freshUrl(t, 'file');
  createSync(url, { ...SMALL, maxClients });
  return url;
}

function rowsOf({ pool }: Client): ClientRow[] {
  return pool.run(pool.membership.rows());
}

function namesIn(client: Client): string[] {
  return rowsOf(client).map(({ name }) => name);
}

function isGone({ pool }: Client, row: ClientRow): boolean {
  return pool.run(pool.membership.isGone(row));
}

test('a client of another namespace lives until its descriptors are closed', { skip }, (t) => {
  const url = newPool(t);
  const [looker, other] = [newClient(t, url), newClient(t, url, ELSEWHERE)];
  other.pool.join('elsewhere');
  const [row] = rowsOf(looker);
  assert.equal(row.locked, true);
  assert.equal(isGone(looker, row), false);
  assert.equal(looker.pool.membership.isOutOfSight(row), false);
  other.die();
  assert.equal(isGone(looker, row), true);
  looker.pool.recoverGone();
  assert.deepEqual(rowsOf(looker), []);
});

test('a client that leaves gives its row and its lock back', { skip }, (t) => {
  const url = newPool(t, 1);
  for (let i = 0; i < 3; i++) {
    const client = newClient(t, url, ELSEWHERE);
    client.pool.join('one after the other');
    const late = newClient(t, url);
    throwsCode('SW_TOO_MANY_CLIENTS', () => late.pool.join('late'));
    const [row] = rowsOf(late);
    client.pool.close();
    assert.equal(isGone(late, row), false, 'it was not there when it had no lock');
    late.pool.join('late');
    late.pool.close();
    assert.deepEqual(rowsOf(late), []);
  }
});

/** Runs an operation of a client elsewhere step by step, and has it die after so many. */
function dieIn(t: TestContext, begin: (client: Client) => Operation<void>, steps: number): boolean {
  const url = newPool(t, 2);
  const [looker, other] = [newClient(t, url), newClient(t, url, ELSEWHERE)];
  looker.pool.join('looker');
  const stepped = new Stepped(other.pool.fabric, begin(other));
  const look = () => {
    for (const row of rowsOf(looker)) assert.equal(isGone(looker, row), false, 'it lives');
  };
  look();
  while (!stepped.done && stepped.steps < steps) {
    stepped.step();
    look();
  }
  const { done } = stepped;
  other.die();
  looker.pool.recoverGone();
  assert.deepEqual(namesIn(looker), ['looker'], `after ${steps} steps`);
  const next = newClient(t, url, ELSEWHERE);
  next.pool.join('next');
  next.pool.close();
  return done;
}

function dieAnywhereIn(t: TestContext, begin: (client: Client) => Operation<void>): void {
  let steps = 0;
  while (!dieIn(t, begin, steps)) steps++;
  assert.ok(steps > 3, `${steps} steps`);
}

test('a client lives at every step of its coming, and may die at any', { skip }, (t) => {
  dieAnywhereIn(t, ({ pool }) => pool.joining('elsewhere'));
});

test('a client lives at every step of its leaving, and may die at any', { skip }, (t) => {
  dieAnywhereIn(t, ({ pool }) => {
    pool.join('elsewhere');
    return pool.departing();
  });
});

test('a client that cleans up after a dead one may die at any step of it', { skip }, (t) => {
  let steps = 0;
  for (let done = false; !done; steps++) {
    const url = newPool(t, 2);
    const looker = newClient(t, url);
    looker.pool.join('looker');
    const dead = newClient(t, url, ELSEWHERE);
    dead.pool.join('dead');
    dead.die();
    const other = newClient(t, url, ELSEWHERE);
    const isDead = ({ name }: ClientRow) => name === 'dead';
    const stepped = new Stepped(other.pool.fabric, other.pool.recovering(isDead));
    while (!stepped.done && stepped.steps < steps) stepped.step();
    const [row] = rowsOf(looker).filter(isDead);
    if (row && !row.live) assert.equal(isGone(looker, row), false, 'the other one is at it');
    done = stepped.done;
    other.die();
    looker.pool.recoverGone();
    assert.deepEqual(namesIn(looker), ['looker'], `after ${steps} steps`);
    newClient(t, url).pool.join('next');
  }
  assert.ok(steps > 5, `${steps} steps`);
});

test('a row whose lock has outlived its client is no row for another one', { skip }, (t) => {
  const url = newPool(t, 2);
  const stale = newClient(t, url);
  const { locks } = attached(t, url);
  // As a child process does that was forked and runs no other program.
  assert.equal(locks?.take(1), LOCK_TAKEN);
  stale.pool.join('second row');
  assert.equal(stale.pool.membership.id, 2);
  throwsCode('SW_TOO_MANY_CLIENTS', () => newClient(t, url).pool.join('none'));
  locks?.close();
  const late = newClient(t, url);
  late.pool.join('first row');
  assert.equal(late.pool.membership.id, 1);
});

test('a terminated thread is gone although its descriptor is still open', { skip }, (t) => {
  const url = newPool(t, 2);
  const looker = newClient(t, url);
  looker.pool.join('looker');
  const terminated = newClient(t, url, { ...self, tid: 2 ** 22 - 1 });
  terminated.pool.join('terminated');
  const [, row] = rowsOf(looker);
  assert.equal(isGone(looker, row), true);
  looker.pool.recoverGone();
  assert.deepEqual(namesIn(looker), ['looker']);
  throwsCode('SW_TOO_MANY_CLIENTS', () => newClient(t, url).pool.join('not in its row'));
  terminated.die();
  newClient(t, url).pool.join('in its row');
});

test('a client that lost its lock is out, and learns it before its next call', { skip }, (t) => {
  const url = newPool(t);
  const looker = newClient(t, url);
  const { fabric, parameters, source } = attached(t, url);
  const pool = new LocalPool(fabric, parameters, source);
  pool.join('careless');
  // Other code of the process closed the descriptor.
  source.locks?.close();
  looker.pool.recoverGone();
  assert.deepEqual(namesIn(looker), []);
  throwsCode('SW_REVOKED', () => pool.enter());
  pool.close();
});

test('clients of a pool are none of a copy of its file', { skip }, (t) => {
  const url = newPool(t);
  const client = newClient(t, url);
  client.pool.join('of the pool');
  const copy = freshUrl(t, 'file');
  copyFileSync(pathOf(url), pathOf(copy));
  const looker = newClient(t, copy);
  assert.deepEqual(namesIn(looker), ['of the pool']);
  looker.pool.recoverGone();
  assert.deepEqual(namesIn(looker), []);
  assert.deepEqual(namesIn(client), ['of the pool']);
});

test('where there are no locks a client is told apart as before, and says so', { skip }, (t) => {
  const url = newPool(t);
  const [looker, other] = [newClient(t, url), attached(t, url)];
  const memory = other.source;
  assert.ok(memory.locks);
  memory.locks.take = () => LOCK_REFUSED;
  const pool = new LocalPool(other.fabric, other.parameters, memory, ELSEWHERE);
  assert.equal(pool.membership.blindness, undefined);
  pool.join('without a lock');
  assert.match(pool.membership.blindness ?? '', /refuses locks/);
  const manifest = { ...INDEX_KINDS[0].manifest, locks: true } as const;
  const refused = {
    code: 'SW_UNSUPPORTED',
    message: /index race .*of a client that died.*refuses/,
  };
  assert.throws(() => refuseBlind(pool, manifest), refused);
  refuseBlind(pool, { ...manifest, locks: undefined });
  looker.pool.join('with a lock');
  refuseBlind(looker.pool, manifest);
  const [row] = rowsOf(looker);
  assert.equal(row.locked, false);
  assert.equal(isGone(looker, row), false);
  assert.equal(looker.pool.membership.isOutOfSight(row), true);
  const here = new LocalPool(other.fabric, other.parameters, memory);
  here.join('of this namespace');
  const visible = rowsOf(looker).find(({ name }) => name === 'of this namespace') as ClientRow;
  assert.equal(looker.pool.membership.isOutOfSight(visible), false);
  const poor = { pid: 1, tid: 0, startTime: 0, boot: 0, namespace: 0 };
  const elsewhere = new LocalPool(
    other.fabric,
    other.parameters,
    { extend() {}, reserve() {} },
    poor,
  );
  assert.match(elsewhere.membership.blindness ?? '', /which threads are gone/);
});

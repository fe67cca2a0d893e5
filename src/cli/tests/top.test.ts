import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PoolObserver } from '../../store/watching/observer.ts';
import { Screen } from '../commands/top.ts';
import { Output } from '../terminal/output.ts';
import { EventHost, fakeContext, Recorder, stepwell } from './support/terminal.ts';

const RESTORED = '\x1b[?25h\x1b[?1049l';
const RATES = {
  reads: 5,
  writes: 1,
  scanned: 0,
  hitRate: 1,
  readLatency: null,
  writeLatency: null,
};

/** A pool that looks the same each time; `looks` counts. */
function fakeObserver() {
  const figures = {
    at: 1000,
    url: 'shm:demo',
    createdAt: 0,
    sizeMax: 2 ** 20,
    bytesUsed: 2 ** 18,
    memory: {
      total: 2 ** 20,
      live: 2 ** 18,
      claimed: 0,
      waiting: 0,
      freeBlocks: 0,
      freeChunks: 3 * 2 ** 18,
      overhead: 0,
      stores: [],
      blocks: [],
    },
    clientsMax: 8,
    sum: RATES,
    clients: [],
    stores: [],
  };
  const state = { looks: 0, closed: false, failing: false };
  const observer = {
    observe: async () => {
      state.looks++;
      if (state.failing) throw new Error('the pool was destroyed');
      return figures;
    },
    close: async () => {
      state.closed = true;
    },
  };
  const observe = async () => async () => observer as unknown as PoolObserver;
  return { state, observe };
}

test('--once and a pipe print one view after two looks', async () => {
  for (const words of [
    ['top', 'shm:demo'],
    ['top', 'shm:demo', '--once'],
  ]) {
    const { state, observe } = fakeObserver();
    const { code, out } = await stepwell(words, { observe });
    assert.equal(code, 0);
    assert.match(out, /^Reads {4}5\/s/m);
    assert.ok(!out.includes('\x1b'));
    assert.deepEqual([state.looks, state.closed], [2, true]);
  }
  const { observe } = fakeObserver();
  const { out } = await stepwell(['top', 'shm:demo', '--once', '--json'], { observe });
  assert.deepEqual(JSON.parse(out).sum, RATES);
});

test('--json alone prints a line for each look until it is interrupted', async () => {
  const interrupt = new AbortController();
  const { observe } = fakeObserver();
  let pauses = 0;
  const pause = async () => {
    if (++pauses === 3) interrupt.abort();
  };
  const setting = { observe, pause, signal: interrupt.signal };
  const { out } = await stepwell(['top', 'shm:demo', '--json'], setting);
  const lines = out.trim().split('\n');
  assert.equal(lines.length, 2);
  for (const line of lines) assert.equal(JSON.parse(line).url, 'shm:demo');
});

test('on a terminal it draws until it is interrupted, tells of failures, and restores', async () => {
  const interrupt = new AbortController();
  const { state, observe } = fakeObserver();
  let pauses = 0;
  const pause = async () => {
    state.failing = ++pauses === 1;
    if (pauses === 3) interrupt.abort();
  };
  const stdout = new Recorder(true);
  const setting = { observe, pause, stdout, signal: interrupt.signal };
  const { code, out } = await stepwell(['top', 'shm:demo'], setting);
  assert.equal(code, 0);
  assert.match(out, /the pool was destroyed/);
  assert.ok(out.endsWith(RESTORED));
  assert.ok(state.closed);
});

test('a memory: pool cannot be watched from elsewhere', async () => {
  const { code, err } = await stepwell(['top', 'memory:']);
  assert.equal(code, 2);
  assert.match(err, /lives inside one process/);
});

for (const how of ['close', 'exit', 'SIGHUP'] as const) {
  test(`a screen is restored once, on ${how}`, () => {
    const recorder = new Recorder(true);
    const host = new EventHost();
    const context = { ...fakeContext(), stdout: new Output(recorder) };
    const raw: boolean[] = [];
    Object.assign(context.stdin, { setRawMode: (on: boolean) => raw.push(on) });
    const screen = new Screen(
      context,
      host,
      () => {},
      () => {},
    );
    screen.draw(['one', 'two']);
    if (how === 'close') screen.close();
    else host.emit(how);
    screen.close();
    screen.draw(['late']);
    assert.ok(recorder.text.endsWith(RESTORED));
    assert.equal(recorder.text.split(RESTORED).length, 2);
    assert.deepEqual(raw, [true, false]);
    assert.equal(host.listenerCount('exit'), 0);
    assert.equal(host.code, how === 'SIGHUP' ? 129 : undefined);
  });
}

test('keys reach the view, Ctrl-C as q', () => {
  const keys: string[] = [];
  const context = fakeContext({ stdout: new Recorder(true) });
  const screen = new Screen(
    context,
    new EventHost(),
    (key) => keys.push(key),
    () => {},
  );
  context.stdin.emit('data', Buffer.from('xq\x03'));
  screen.close();
  assert.deepEqual(keys, ['x', 'q', 'q']);
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StepwellError } from '../../../errors.ts';
import type { CommandContext } from '../../command.ts';
import { ReplyWriter } from '../../protocol/reply.ts';
import { fakeStore } from '../../tests/support/fake-store.ts';
import { serverView } from '../../tests/support/server-view.ts';
import { GetRun } from '../connection.ts';

function setUp() {
  const store = fakeStore();
  const reply = new ReplyWriter();
  const server = serverView(store);
  const context = { store: store.operations, reply, server } as unknown as CommandContext;
  const serve = (run: GetRun, list: Buffer[][], first = 0) =>
    store.pool.run(run.serve(list, first, context));
  return { store, reply, serve };
}

function requests(...lines: string[]): Buffer[][] {
  return lines.map((line) => line.split(' ').map((word) => Buffer.from(word)));
}

describe('GetRun', () => {
  it('takes GETs up to the first other request', () => {
    const { serve } = setUp();
    const run = new GetRun();
    const list = requests('PING', 'GET a', 'get b', 'GeT c', 'SET a 1', 'GET a', 'GET', 'GET a b');
    const counts = list.map((_, first) => serve(run, list, first));
    assert.deepEqual(counts, [0, 3, 2, 0, 0, 0, 0, 0]);
  });

  it('leaves errors to the command itself', () => {
    const { store, reply, serve } = setUp();
    store.failure = new StepwellError('SW_INVALID_KEY', 'planted');
    assert.equal(serve(new GetRun(), requests('GET a', 'GET b')), 0);
    assert.equal(reply.length, 0);
  });

  it('takes longer runs of small values and shorter ones of large values', () => {
    const { store, serve: serveRun } = setUp();
    const run = new GetRun();
    const list = requests(...Array<string>(200).fill('GET a'));
    const serve = () => serveRun(run, list);
    assert.deepEqual([serve(), serve(), serve(), serve()], [16, 32, 64, 64]);
    // Of the first run most values are left for the next ones.
    store.set('a', Buffer.alloc(100_000));
    const lengths = Array.from({ length: 5 }, serve);
    assert.deepEqual(lengths, [10, 10, 10, 8, 10]);
    store.set('a', Buffer.alloc(2_000_000));
    assert.deepEqual(Array.from({ length: 7 }, serve), [1, 1, 1, 1, 1, 1, 1]);
    store.set('a', Buffer.alloc(1));
    assert.deepEqual([serve(), serve()], [2, 4]);
  });
});

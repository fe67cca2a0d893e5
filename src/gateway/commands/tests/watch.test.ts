import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countSteps } from '../../tests/support/count-steps.ts';
import { settle, startConnection } from '../../tests/support/slow-socket.ts';

function namesOf(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `key:${index}`);
}

/** Watches keys by one command, forgets them, watches them one by one, and runs a transaction. */
async function watchTwice(count: number): Promise<void> {
  const { socket, store, connection } = startConnection();
  const names = namesOf(count);
  const oneByOne = names.map((name) => `WATCH ${name}`);
  socket.receive(`WATCH ${names.join(' ')}`, 'UNWATCH', ...oneByOne, 'MULTI', 'PING', 'EXEC');
  await settle();
  assert.match(socket.sentText, /\+OK\r\n\+QUEUED\r\n\*1\r\n\+PONG\r\n$/);
  assert.equal(store.calls.metadata, 3 * count);
  assert.equal(connection.state.heldBytes, 0);
  socket.destroy();
}

test('watching twice as many keys takes twice the work', async () => {
  const [once, twice] = await countSteps([5000, 10_000].map((count) => () => watchTwice(count)));
  assert.ok(once > 15_000, `${once} steps`);
  assert.ok(twice < 2.5 * once, `${once} steps for 5000 keys, ${twice} for 10,000`);
});

test('EXEC reads each watched key once, none behind one that changed, and none if it aborts', async () => {
  const { socket, store } = startConnection();
  const names = namesOf(100);
  const reads = async (...requests: string[]) => {
    const before = store.calls.metadata ?? 0;
    socket.receive(...requests);
    await settle();
    socket.release();
    await settle();
    return (store.calls.metadata ?? 0) - before;
  };
  const watch = `WATCH ${names.join(' ')}`;
  assert.equal(await reads(watch, watch, `WATCH ${names[0]}`, 'MULTI'), 100);
  assert.equal(await reads('EXEC'), 100);
  await reads(watch, `SET ${names[9]} 1`, 'MULTI');
  assert.equal(await reads('EXEC'), 10);
  await reads(watch, 'MULTI', 'NOSUCH');
  assert.equal(await reads('EXEC'), 0);
  assert.match(socket.sentText, /\*0\r\n[\s\S]*\*-1\r\n[\s\S]*-EXECABORT .*\r\n$/);
  socket.destroy();
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { LocalPool } from '../../../pool/local-pool.ts';
import { type RemoteFabric, runRemote, TrafficCounters } from '../../../verbs/index.ts';
import type { GatewayPool } from '../../gateway-store.ts';
import { type SlowSocket, settle, startConnection } from '../../tests/support/slow-socket.ts';

/** Runs operations as over a network: each batch takes a turn of the event loop. */
function slowPool({ fabric }: LocalPool): GatewayPool {
  const remote: RemoteFabric = {
    traffic: new TrafficCounters(),
    post(batch, completion) {
      setImmediate(() => {
        fabric.execute(batch);
        completion.completed(undefined);
      });
    },
  };
  return { run: (operation) => runRemote(remote, operation) };
}

/** A connection whose requests run as over a network. */
function overNetwork() {
  const started = startConnection();
  Object.assign(started.server, { pool: slowPool(started.store.pool as LocalPool) });
  return started;
}

async function readAll(socket: SlowSocket): Promise<void> {
  for (let turn = 0; turn < 100; turn++) {
    await settle();
    socket.release();
  }
}

const VALUE = Buffer.alloc(100_000, 'v');

describe('Connection', () => {
  it('sends the replies of one pipeline in one write, in order', async () => {
    const { socket, store } = startConnection();
    store.set('big', VALUE);
    socket.receive('PING', 'SET a 1', 'GET a', 'GET big', 'NOSUCH', 'INCR a', 'GET a', 'GET x');
    await settle();
    assert.equal(socket.writes, 1);
    assert.equal(
      socket.sentText,
      `+PONG\r\n+OK\r\n$1\r\n1\r\n$${VALUE.length}\r\n${VALUE}\r\n` +
        "-ERR unknown command 'NOSUCH', with args beginning with: \r\n" +
        ':2\r\n$1\r\n2\r\n$-1\r\n',
    );
    socket.destroy();
  });

  it('serves GETs that follow each other by one getMany', async () => {
    const { socket, store, totals } = startConnection();
    socket.receive('SET a 1', 'GET a', 'get b', 'GeT a', 'SET a 2', 'GET a', 'PING', 'GET');
    await settle();
    assert.equal(store.calls.getMany, 1);
    assert.equal(store.calls.get, 1);
    assert.equal(totals.commands, 8);
    assert.match(socket.sentText, /^\+OK\r\n\$1\r\n1\r\n\$-1\r\n\$1\r\n1\r\n\+OK\r\n\$1\r\n2\r\n/);
    socket.destroy();
  });

  it('runs a transaction as a whole, in one packet or in pieces', async () => {
    for (const together of [true, false]) {
      const { socket, store } = startConnection();
      const requests = ['MULTI', 'SET a 1', 'GET a', 'GET a', 'EXEC', 'GET a', 'GET a'];
      if (together) socket.receive(...requests);
      else for (const request of requests) socket.receive(request);
      await settle();
      for (let turn = 0; turn < requests.length; turn++) {
        socket.release();
        await settle();
      }
      const one = '$1\r\n1\r\n';
      const queued = '+QUEUED\r\n'.repeat(3);
      assert.equal(socket.sentText, `+OK\r\n${queued}*3\r\n+OK\r\n${one}${one}${one}${one}`);
      // Only behind the transaction are GETs read together.
      assert.equal(store.calls.getMany ?? 0, together ? 1 : 0);
      socket.destroy();
    }
  });

  it('stops running and reading while the client does not read, and loses nothing', async () => {
    const { socket, store, totals } = startConnection();
    store.set('big', VALUE);
    const requests = Array.from({ length: 500 }, (_, index) => [
      'GET big',
      'INCR n',
      ...(index % 2 ? ['GET big', 'GET n'] : []),
    ]).flat();
    socket.receive(...requests);
    await settle();
    const stopped = totals.commands;
    assert.ok(stopped < 50, `${stopped} commands ran`);
    assert.ok(socket.isPaused());
    socket.receive('ECHO end');
    await settle();
    assert.equal(totals.commands, stopped);
    for (let turn = 0; turn < 500 && totals.commands <= requests.length; turn++) {
      assert.ok(socket.writableLength < 4_000_000, `${socket.writableLength} bytes wait`);
      socket.release();
      await settle();
    }
    socket.release();
    await settle();
    assert.ok(!socket.isPaused());
    assert.match(socket.sentText, /\r\n:500\r\n.*\$3\r\nend\r\n$/s);
    assert.equal(socket.sentText.split(VALUE.toString()).length - 1, 750);
    socket.destroy();
  });

  it('reads no further while verbs take time and requests wait', async () => {
    const { socket, store, connection, totals } = overNetwork();
    store.set('big', VALUE);
    const chunks = 60;
    const requests = Array<string>(30).fill('GET big');
    for (let chunk = 0; chunk < chunks; chunk++) socket.receive(...requests);
    let held = 0;
    for (let turn = 0; turn < 50_000 && totals.commands < chunks * requests.length; turn++) {
      await settle();
      held = Math.max(held, connection.inputBytes);
      socket.release();
    }
    assert.equal(totals.commands, chunks * requests.length);
    assert.ok(held < 40_000, `${held} bytes of requests were held`);
    socket.destroy();
  });

  it('sends nothing while a reply is being written, over a network', async () => {
    const exec = ['MULTI', 'ECHO x', 'STRLEN a', 'EXEC'];
    const whole = '+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nx\r\n:0\r\n';
    for (const [requests, replies] of [
      [exec, whole],
      [['CLIENT REPLY SKIP', 'SET b 1'], ''],
    ] as const) {
      const { socket, connection } = overNetwork();
      socket.receive('ECHO a');
      // Its reply is to be sent in the next turn of the event loop, when the others are running.
      for (let step = 0; step < 3; step++) await null;
      socket.receive(...requests, 'STRLEN a');
      connection.push(Buffer.from('>0\r\n'));
      await readAll(socket);
      assert.equal(socket.sentText, `$1\r\na\r\n${replies}>0\r\n:0\r\n`);
      socket.destroy();
    }
  });

  it('sends a message to a client without replies that runs commands over a network', async () => {
    const { socket, connection } = overNetwork();
    socket.receive('CLIENT REPLY OFF', 'SET a 1');
    connection.push(Buffer.from('>0\r\n'));
    await readAll(socket);
    assert.equal(socket.sentText, '>0\r\n');
    socket.destroy();
  });

  it('reads no further for a long reply whose client is gone', async () => {
    const { socket, store } = overNetwork();
    socket.receive(`MGET ${Array.from({ length: 5000 }, (_, i) => `k${i}`).join(' ')}`);
    socket.destroy();
    for (let turn = 0; turn < 500; turn++) await settle();
    assert.equal(store.calls.getMany, 1);
  });

  it('answers everything to a client that has ended its input before it reads', async () => {
    const { socket, store } = startConnection();
    store.set('big', VALUE);
    socket.receive(...Array<string>(100).fill('GET big'), 'ECHO end');
    socket.push(null);
    for (let turn = 0; turn < 100 && !socket.writableFinished; turn++) {
      await settle();
      socket.release();
    }
    assert.match(socket.sentText, /\$3\r\nend\r\n$/);
    assert.ok(socket.writableFinished);
  });

  it('runs what came before malformed bytes, says why it stops, and reads no further', async () => {
    const { socket, store } = startConnection();
    socket.receive('SET a 1');
    socket.push('*x\r\n');
    socket.receive('SET a 2');
    await settle();
    socket.release();
    await settle();
    assert.equal(socket.sentText, '+OK\r\n-ERR Protocol error: invalid multibulk length\r\n');
    assert.equal(Buffer.from(store.get('a') ?? '').toString(), '1');
    assert.ok(socket.writableEnded);
    socket.push(null);
  });

  it('runs nothing more once it is told to close', async () => {
    const { socket, store, connection } = startConnection();
    store.set('big', VALUE);
    socket.receive(...Array<string>(100).fill('GET big'), 'SET a 1');
    await settle();
    connection.close(10_000);
    for (let turn = 0; turn < 20; turn++) {
      socket.release();
      await settle();
    }
    assert.equal(store.get('a'), undefined);
    assert.match(socket.sentText, /v\r\n$/);
    socket.push(null);
    await settle();
    assert.ok(socket.destroyed);
  });

  it('ends itself, not the process, when the gateway fails', async () => {
    const { socket, failures } = startConnection();
    const failure = new Error('planted');
    Object.defineProperty(socket, 'write', {
      value() {
        throw failure;
      },
    });
    socket.receive('PING');
    await settle();
    assert.deepEqual(failures, [failure]);
    assert.ok(socket.destroyed);
  });
});

import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, it } from 'node:test';
import { StepwellError } from '../../errors.ts';
import { type GatewayOptions, type GatewayServer, serveRedis } from '../server.ts';
import { array, command, connectTo, exchange, serverFor, startServer } from './support/exchange.ts';
import { fakeStore, served } from './support/fake-store.ts';

/** Reads until the text has come. */
async function until(socket: Socket, text: string): Promise<string> {
  let received = '';
  while (!received.includes(text)) {
    const [chunk] = await once(socket, 'data');
    received += chunk.toString('latin1');
  }
  return received;
}

function closed(socket: Socket): Promise<unknown> {
  return socket.closed ? Promise.resolve() : once(socket, 'close');
}

/** The server hears of a client's end a little later than the client does. */
async function untilConnections(server: GatewayServer, count: number): Promise<void> {
  while (server.connections !== count) await new Promise((resolve) => setImmediate(resolve));
}

describe('serveRedis', () => {
  it('says where it listens', async (test) => {
    const { server } = await serverFor(test);
    assert.equal(server.address.host, '127.0.0.1');
    assert.ok(server.address.port > 0);
    assert.equal(server.url, `redis://127.0.0.1:${server.address.port}`);
  });

  it('refuses options that it cannot serve', async () => {
    const wrong: Partial<GatewayOptions>[] = [
      { host: '0.0.0.0' },
      { host: '::' },
      { host: '192.168.1.1' },
      { host: 'example.com' },
      { host: '127.0.0.1.example.com' },
      { host: '' },
      { port: -1 },
      { port: 65_536 },
      { port: 1.5 },
      { maxConnections: 0 },
      { maxConnections: Number.NaN },
      { maxRequestBytes: 0 },
      { maxClientBytes: 1 },
    ];
    for (const options of wrong) {
      await assert.rejects(serveRedis({ ...served(fakeStore()), port: 0, ...options }), (error) => {
        assert.ok(error instanceof StepwellError);
        assert.equal(error.code, 'SW_INVALID_ARGUMENT');
        return true;
      });
    }
  });

  it('says that the address is in use', async (test) => {
    const { server } = await serverFor(test);
    const { port } = server.address;
    await assert.rejects(startServer({ port }), {
      name: 'StepwellError',
      code: 'SW_ADDRESS_IN_USE',
      message: `another server already listens on 127.0.0.1:${port}`,
    });
  });

  it('harms nobody else when one client sends nonsense', async (test) => {
    const { server } = await serverFor(test);
    const other = connectTo(server);
    other.write(array('SET', 'a', '1').subarray(0, 10));
    for (const nonsense of ['*1\r\n:1\r\n', '*99999999\r\n', '"\r\n', '*1\r\n$999999999\r\n']) {
      for (const piece of [1, Number.POSITIVE_INFINITY]) {
        const reply = await exchange(server, nonsense, { piece });
        assert.match(reply, /^-ERR Protocol error: [^\r]+\r\n$/);
      }
    }
    other.write(array('SET', 'a', '1').subarray(10));
    assert.equal(await until(other, '\n'), '+OK\r\n');
    await untilConnections(server, 1);
    other.destroy();
  });

  it('hangs up after malformed input even when the client goes on sending', async (test) => {
    const { server } = await serverFor(test);
    const socket = connectTo(server);
    socket.write('*x\r\n');
    const reply = await until(socket, '\n');
    assert.equal(reply, '-ERR Protocol error: invalid multibulk length\r\n');
    socket.write(Buffer.alloc(1_000_000, 'PING\r\n'));
    await closed(socket);
  });

  it('survives failures inside the store and inside the error hook', async (test) => {
    const seen: string[] = [];
    const { server, store } = await serverFor(test, {
      onError(_error, name) {
        seen.push(name);
        throw new Error('planted in the hook');
      },
    });
    test.mock.method(console, 'error', () => {});
    store.failure = new Error('planted in the store');
    const bytes = Buffer.concat([command('SET a 1'), command('PING')]);
    assert.equal(await exchange(server, bytes), '-ERR internal error\r\n+PONG\r\n');
    assert.deepEqual(seen, ['set']);
  });

  it('tells clients beyond the limit, and accepts again when one has gone', async (test) => {
    const { server } = await serverFor(test, { maxConnections: 2 });
    const clients = [connectTo(server), connectTo(server)];
    for (const client of clients) {
      client.write('PING\r\n');
      await until(client, 'PONG');
    }
    const refused = await exchange(server, '');
    assert.equal(refused, '-ERR max number of clients reached\r\n');
    assert.equal(server.connections, 2);
    clients[0].end();
    await untilConnections(server, 1);
    assert.equal(await exchange(server, 'PING\r\n'), '+PONG\r\n');
    clients[1].destroy();
  });

  it('carries large values whole', async (test) => {
    const { server, store } = await serverFor(test);
    const value = Buffer.alloc(3_000_000, 'abcdefg\r\n');
    assert.equal(await exchange(server, array('SET', 'big', value)), '+OK\r\n');
    assert.ok(value.equals(Buffer.from(store.get('big') ?? '')));
    const reply = await exchange(
      server,
      Buffer.concat([command('GET big'), command('STRLEN big')]),
    );
    assert.ok(reply === `$${value.length}\r\n${value}\r\n:${value.length}\r\n`);
  });

  it('does nothing about a request that breaks off', async (test) => {
    const { server, store } = await serverFor(test);
    const bytes = Buffer.concat([command('PING'), command('SET a 1').subarray(0, -1)]);
    assert.equal(await exchange(server, bytes), '+PONG\r\n');
    assert.equal(store.size, 0);
  });

  it('forgets clients that reset the connection', async (test) => {
    const { server, failures } = await serverFor(test);
    const socket = connectTo(server);
    socket.write('PING\r\n');
    await until(socket, 'PONG');
    socket.resetAndDestroy();
    await closed(socket);
    assert.equal(await exchange(server, 'PING\r\n'), '+PONG\r\n');
    assert.deepEqual(failures, []);
    await untilConnections(server, 0);
  });

  it('sends what is ready and hangs up when it closes', async () => {
    const { server } = await startServer();
    const socket = connectTo(server);
    socket.write('PING\r\n');
    await until(socket, 'PONG');
    const ended = once(socket, 'end');
    const [first, second] = [server.close(), server.close()];
    assert.equal(first, second);
    await Promise.all([first, ended]);
    assert.equal(server.connections, 0);
    await assert.rejects(once(connectTo(server), 'connect'), { code: 'ECONNREFUSED' });
  });

  it('cuts off clients that never read when it closes', async () => {
    const { server, store } = await startServer();
    store.set('big', Buffer.alloc(30_000_000));
    const socket = connectTo(server);
    socket.on('error', () => {});
    socket.write('GET big\r\n');
    await once(socket, 'readable');
    await server.close();
    assert.equal(server.connections, 0);
    socket.destroy();
  });

  it('closes by `await using` too', async () => {
    const { server } = await startServer();
    await server[Symbol.asyncDispose]();
    await assert.rejects(once(connectTo(server), 'connect'), { code: 'ECONNREFUSED' });
  });
});

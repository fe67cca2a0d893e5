import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { isMissing } from '../../store/tests/support/missing-tools.ts';
import type { GatewayServer } from '../server.ts';
import { serverFor } from './support/exchange.ts';

const run = promisify(execFile);

function at({ address: { host, port } }: GatewayServer): string[] {
  return ['-h', host, '-p', String(port)];
}

describe('redis-cli', { skip: isMissing('redis-cli') }, () => {
  for (const protocol of ['-2', '-3']) {
    it(`talks to the gateway (${protocol})`, async (test) => {
      const { server } = await serverFor(test);
      const ask = async (...words: string[]) =>
        (await run('redis-cli', [...at(server), protocol, ...words])).stdout.trimEnd();
      assert.equal(await ask('ping'), 'PONG');
      assert.equal(await ask('set', 'a', 'x y'), 'OK');
      assert.equal(await ask('get', 'a'), 'x y');
      assert.equal(await ask('incr', 'n'), '1');
      assert.equal(await ask('--scan', '--pattern', 'a*'), 'a');
      assert.match(await ask('info', 'server'), /redis_version/);
      assert.match(await ask('command', 'docs', 'get'), /Returns the value of a key/);
      assert.match(await ask('nosuch'), /^ERR unknown command 'nosuch'/);
    });
  }

  it('reads the command table when it starts to talk to a person', async (test) => {
    const { server } = await serverFor(test);
    const child = run('redis-cli', at(server));
    child.child.stdin?.end('help get\nset a 1\nget a\nquit\n');
    const { stdout } = await child;
    assert.match(stdout, /Returns the value of a key, or null\./);
    assert.match(stdout, /OK\n"?1"?\n/);
  });

  it('loads a file of raw protocol through its pipe mode', async (test) => {
    const { server, store } = await serverFor(test);
    const child = run('redis-cli', [...at(server), '--pipe']);
    const lines = Array.from({ length: 1000 }, (_, n) => `SET key${n} value${n}\r\n`);
    child.child.stdin?.end(lines.join(''));
    const { stdout } = await child;
    assert.match(stdout, /errors: 0, replies: 1000/);
    assert.equal(store.size, 1000);
  });
});

describe('redis-benchmark', { skip: isMissing('redis-benchmark') }, () => {
  it('completes its usual workloads', async (test) => {
    const { server, store } = await serverFor(test);
    const options = '-t ping,set,get,incr,mset -n 2000 -P 16 -q'.split(' ');
    const { stdout, stderr } = await run('redis-benchmark', [...at(server), ...options]);
    for (const name of ['PING_INLINE', 'PING_MBULK', 'SET', 'GET', 'INCR', 'MSET']) {
      assert.match(stdout, new RegExp(`${name}[^\\r\\n]*: [0-9.]+ requests per second`));
    }
    assert.doesNotMatch(stdout + stderr, /error|warning/i);
    assert.equal(Number(Buffer.from(store.get('counter:__rand_int__') ?? '').toString()), 2000);
  });
});

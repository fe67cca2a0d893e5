/** The commands on pools that are plain maps: words in, text and exit codes out. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { StepwellError } from '../../errors.ts';
import type { GatewayOptions } from '../../gateway/server.ts';
import { BenchLoop } from '../bench/bench-client.ts';
import { median } from '../commands/bench.ts';
import { FakePools } from './support/fake-pools.ts';
import { Recorder, stepwell } from './support/terminal.ts';

const URL = 'shm:x';

describe('every command', () => {
  it('that needs a pool refuses memory: and explains', async () => {
    for (const words of [
      ['get', 'k'],
      ['set', 'k', 'v'],
      ['del', 'k'],
      ['dump'],
      ['scan'],
      ['inspect'],
      ['check'],
      ['create'],
      ['destroy'],
      ['load', 'f.csv'],
    ]) {
      const { code, err } = await stepwell([words[0], 'memory:', ...words.slice(1)]);
      assert.equal(code, 2, words[0]);
      assert.match(err, /lives inside one process/);
    }
  });

  it('closes the store, also after a failure', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', 'v'], { pools });
    const stdout = new Recorder();
    stdout.write = () => {
      throw new Error('broken terminal');
    };
    for (const words of [
      ['get', URL, 'k'],
      ['dump', URL],
      ['del', URL, 'z'],
    ]) {
      assert.equal((await stepwell(words, { pools, stdout })).code, 70);
    }
    assert.equal(pools.openStores, 0);
  });
});

describe('set, get and del', () => {
  it('store, return and remove', async () => {
    const pools = new FakePools();
    assert.deepEqual(await stepwell(['set', URL, '007', 'bond'], { pools }), {
      code: 0,
      out: '',
      err: '',
      bytes: Buffer.alloc(0),
    });
    assert.equal((await stepwell(['get', URL, '007'], { pools })).out, 'bond');
    assert.equal((await stepwell(['del', URL, '007', '7'], { pools })).out, '1\n');
    const missing = await stepwell(['get', URL, '007'], { pools });
    assert.deepEqual([missing.code, missing.out, missing.err], [1, '', 'not found\n']);
  });

  it('take and give any bytes', async () => {
    const pools = new FakePools();
    const bytes = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);
    for (const words of [['k'], ['k', '-']]) {
      assert.equal((await stepwell(['set', URL, ...words], { pools, stdin: bytes })).code, 0);
      pools.store(URL).get = async () => bytes;
      assert.deepEqual((await stepwell(['get', URL, 'k'], { pools })).bytes, bytes);
      assert.deepEqual(pools.store(URL).peek('k'), bytes);
    }
  });

  it('end the line for a person only, and write an empty value', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', ''], { pools });
    assert.equal((await stepwell(['get', URL, 'k'], { pools })).out, '');
    const stdout = new Recorder(true);
    assert.equal((await stepwell(['get', URL, 'k'], { pools, stdout })).out, '\n');
  });

  it('ask for a value rather than wait for a person to type', async () => {
    const { code, err } = await stepwell(['set', URL, 'k'], { typed: true });
    assert.equal(code, 2);
    assert.match(err, /no value/);
  });

  it('keep conditions', async () => {
    const pools = new FakePools();
    const set = (...more: string[]) => stepwell(['set', URL, 'k', ...more], { pools });
    assert.equal((await set('v', '--update')).code, 3, 'no pool is made for an update');
    assert.equal((await set('v', '--insert')).code, 0);
    const again = await set('w', '--insert');
    assert.deepEqual([again.code, again.err], [1, 'key exists\n']);
    assert.equal((await set('w', '--update')).code, 0);
    assert.equal(pools.store(URL).peek('k'), 'w');
    assert.equal((await stepwell(['set', URL, 'z', 'v', '--update'], { pools })).code, 1);
    assert.equal((await set('v', '--update', '--insert')).code, 2);
  });

  it('make pools to write only, and use the store that is named', async () => {
    const pools = new FakePools();
    for (const words of [
      ['get', URL, 'k'],
      ['del', URL, 'k'],
      ['dump', URL],
    ]) {
      const { code, err } = await stepwell(words, { pools });
      assert.deepEqual([code, err], [3, `stepwell: no pool at ${URL} (SW_POOL_NOT_FOUND)\n`]);
    }
    await stepwell(['set', URL, 'k', 'v', '--store', 'other'], { pools });
    assert.equal((await stepwell(['get', URL, 'k', '--store=other'], { pools })).out, 'v');
    assert.match((await stepwell(['get', URL, 'k'], { pools })).err, /SW_STORE_NOT_FOUND/);
  });
});

describe('create and destroy', () => {
  it('pass sizes and parameters on', async () => {
    const pools = new FakePools();
    const words = ['create', URL, '--size', '4g', '--region-size=1g', '--store', 's', '--set'];
    const { code, out } = await stepwell([...words, 'groups=64,initialDepth=2'], { pools });
    assert.equal(code, 0);
    assert.match(out, /^created shm:x \(\/fake\/shm:x, up to 4 GiB\)\n$/);
    assert.deepEqual(pools.calls, [
      `create ${URL} {"size":4294967296,"regionSize":1073741824,"client":"stepwell create",` +
        '"store":"s","index":{"kind":"race","groups":64,"initialDepth":2}}',
    ]);
  });

  it('choose an index and its parameters', async () => {
    const pools = new FakePools();
    const words = ['create', URL, '--index', 'hstore', '--set', 'log=16, sync=true'];
    assert.equal((await stepwell(words, { pools })).code, 0);
    assert.equal(
      pools.calls.at(-1),
      `create ${URL} {"client":"stepwell create","store":"default",` +
        '"index":{"kind":"hstore","log":16,"sync":true}}',
    );
    for (const refused of [
      ['--set', 'span'],
      ['--set', 'span=x'],
      ['--set', '=3'],
    ]) {
      assert.equal((await stepwell(['create', 'shm:n', ...refused], { pools })).code, 2);
    }
    assert.equal(pools.pools.has('shm:n'), false);
  });

  it('make no store unless asked', async () => {
    const pools = new FakePools();
    await stepwell(['create', URL], { pools });
    assert.equal(pools.pools.get(URL)?.size, 0);
    const again = await stepwell(['create', URL], { pools });
    assert.equal(again.code, 3);
    assert.match(again.err, /SW_POOL_EXISTS/);
  });

  it('make more stores in a pool that is there, each once, and leave others alone', async () => {
    const pools = new FakePools();
    const create = (...words: string[]) => stepwell(['create', URL, ...words], { pools });
    await stepwell(['set', URL, 'k', 'v'], { pools });
    const { code, out } = await create('--store', 'events', '--index', 'chime');
    assert.equal(code, 0);
    assert.equal(out, 'created store events in shm:x (/fake/shm:x, up to 4 GiB)\n');
    assert.match(pools.calls.at(-1) ?? '', /"store":"events".*"index":\{"kind":"chime"\}/);
    assert.deepEqual([...(pools.pools.get(URL) ?? []).keys()], ['default', 'events']);
    const again = await create('--store', 'events', '--index', 'chime');
    assert.equal(again.code, 3);
    assert.match(again.err, /store events is there already.*another name.*\(SW_STORE_EXISTS\)/);
    assert.match((await create('--index', 'chime')).err, /store default .*\(SW_STORE_EXISTS\)/);
    assert.match((await create()).err, /--store NAME makes another.*\(SW_POOL_EXISTS\)/);
    const resized = await create('--store', 'more', '--size', '8g');
    assert.match(resized.err, /its sizes stay \(SW_POOL_EXISTS\)/);
    assert.deepEqual([...(pools.pools.get(URL) ?? []).keys()], ['default', 'events']);
    assert.equal(pools.store(URL).peek('k'), 'v');
    assert.equal(pools.openStores, 0);
  });

  it('remove a pool, a busy one by force only', async () => {
    const pools = new FakePools();
    await stepwell(['create', URL], { pools });
    pools.busy = true;
    const refused = await stepwell(['destroy', URL], { pools });
    assert.deepEqual([refused.code, refused.err.includes('SW_POOL_BUSY')], [3, true]);
    assert.equal(
      (await stepwell(['destroy', URL, '--force'], { pools })).out,
      `destroyed ${URL}\n`,
    );
    assert.equal((await stepwell(['destroy', URL], { pools })).code, 3);
  });
});

describe('inspect and check', () => {
  it('print tables for people and JSON for programs', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', 'v'], { pools });
    const { out } = await stepwell(['inspect', URL], { pools });
    assert.match(out, /Huge pages +no \(the system gives none\)/);
    assert.match(out, /Memory +3 MiB in use of 4 GiB \(3 of 1,024 chunks of 1 MiB, 1,021 free\)/);
    assert.match(
      out,
      /default +race +ready +1 +25\.0% +- +100 +2 +1 +2 KiB +4\.1 KiB +associativity=7/,
    );
    assert.match(
      out,
      /1 +web \\u\{1b\}\[31mred +42 +0 +alive, holds back memory .* 1 KiB +3 MiB$/m,
    );
    assert.match(out, /LIVE +CLAIMED AHEAD +WAITING +FREE BLOCKS +FREE CHUNKS +OVERHEAD\n/);
    assert.match(out, /^ *5 MiB +1 KiB +3 MiB +64 B +1 GiB +1 MiB$/m);
    assert.match(out, /^default +all +8 MiB +64 B +\?$/m);
    assert.match(out, /^default +832 B +1 +64 B +7\.5 KiB$/m);
    assert.match(out, /… 1 block size more: --json$/m, 'the size with the least free memory');
    const json = await stepwell(['inspect', URL, '--json'], { pools });
    assert.equal(JSON.parse(json.out).stores[0].records, 1);
  });

  it('count problems as a negative answer', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', 'v'], { pools });
    const good = await stepwell(['check', URL], { pools });
    assert.equal(good.code, 0);
    assert.match(good.out, /every invariant holds/);
    pools.problems = ['slot 3 points nowhere \u001b[2J'];
    const bad = await stepwell(['check', URL], { pools });
    assert.equal(bad.code, 1);
    assert.match(bad.out, /problem: slot 3 points nowhere \\u\{1b\}\[2J\n1 problem \(/);
    const json = await stepwell(['check', URL, '--json'], { pools });
    assert.equal(json.code, 1);
    assert.equal(JSON.parse(json.out).problems.length, 1);
  });

  it('name the blocks that dead clients left, and what brings them back', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', 'v'], { pools });
    pools.left = { unswept: 2, blocks: 512, bytes: 512 * 64 };
    const { code, out } = await stepwell(['check', URL], { pools });
    assert.equal(code, 0);
    assert.match(out, /default: 512 blocks \(32 KiB\) left by 2 clients that died: no damage/);
    assert.match(out, /brings them back, or check with --sweep/);
    assert.match(out, /every invariant holds; clients that died left blocks \(/);
    assert.doesNotMatch(out, /leaked/);
  });

  it('name what makers of stores left behind, which is no problem', async () => {
    const pools = new FakePools();
    await stepwell(['set', URL, 'k', 'v'], { pools });
    pools.unfinished = [{ index: 'shard', chunks: 3, bytes: 3 * 2 ** 18 }];
    const { code, out } = await stepwell(['check', URL], { pools });
    assert.equal(code, 0);
    assert.match(out, /3 chunks \(768 KiB\) of a store on shard, whose maker died: no damage/);
    assert.match(out, /every invariant holds/);
  });
});

describe('serve', () => {
  const begin = (words: string[], failure?: Error) => {
    const pools = new FakePools();
    const controller = new AbortController();
    const seen: GatewayOptions[] = [];
    const stdout = new Recorder();
    let closed = 0;
    const serveRedis = async () => async (options: GatewayOptions) => {
      if (failure !== undefined) throw failure;
      seen.push(options);
      const close = async () => {
        closed++;
      };
      return { address: { host: options.host!, port: options.port || 4321 }, close };
    };
    const { signal } = controller;
    const ended = stepwell(['serve', ...words], { pools, signal, serveRedis, stdout });
    return { pools, controller, seen, stdout, ended, closed: () => closed };
  };

  it('says where it serves and what to do next, and ends in order', async () => {
    const { pools, controller, seen, ended, closed } = begin([]);
    await new Promise(setImmediate);
    assert.equal(closed(), 0);
    controller.abort();
    const { code, out } = await ended;
    assert.equal(code, 0);
    assert.deepEqual([seen[0].host, seen[0].port], ['127.0.0.1', 6380]);
    assert.match(out, /Serving the Redis protocol on 127\.0\.0\.1:6380/);
    assert.match(out, /redis-cli -p 6380\n/);
    assert.match(out, /\/fake\/shm:stepwell \(3 MiB in use, up to 4 GiB\)/);
    assert.match(out, /npx stepwell inspect shm:stepwell\n/);
    assert.match(out, /kept\n$/);
    assert.equal(closed(), 1);
    assert.equal(pools.openStores, 0);
    assert.ok(pools.pools.has('shm:stepwell'));
    assert.match(pools.calls[0], /"values":"bytes"/);
  });

  it('passes host, port, store and limits on, and ends when interrupted early', async () => {
    const words = [URL, '--host', '::1', '--port', '0', '--store', 's', '--max-connections', '5'];
    words.push('--max-request', '2m', '--max-client-memory', '64m');
    const { controller, seen, ended, pools } = begin(words);
    controller.abort();
    const { out } = await ended;
    assert.match(out, /on \[::1\]:4321/);
    assert.match(out, /redis-cli -h ::1 -p 4321/);
    assert.equal(seen[0].maxConnections, 5);
    assert.equal(seen[0].maxRequestBytes, 2 ** 21);
    assert.equal(seen[0].maxClientBytes, 2 ** 26);
    assert.ok(pools.store(URL, 's'));
  });

  it('closes the store when the port is taken', async () => {
    const taken = Object.assign(new Error('listen EADDRINUSE: address already in use'), {
      code: 'EADDRINUSE',
      errno: -98,
    });
    const { ended, pools } = begin([], taken);
    const { code, err } = await ended;
    assert.equal(code, 3);
    assert.equal(err, 'stepwell: listen address already in use (EADDRINUSE)\n');
    assert.equal(pools.openStores, 0);
    assert.equal((await stepwell(['serve', '--port', '65536'])).code, 2);
  });
});

describe('index-server', () => {
  it('refuses roles, pairs and seconds that are none before it attaches', async () => {
    for (const wrong of [
      ['--role', 'chef'],
      ['--pairs', 'x'],
      ['--pairs', '0'],
      ['--pairs', '1,,2'],
      ['--etcd-ttl', '0'],
      ['--etcd-ttl', '1.5'],
      ['--etcd-ttl', '5'],
    ]) {
      const { code, err } = await stepwell(['index-server', URL, ...wrong]);
      assert.equal(code, 2, wrong.join(' '));
      assert.ok(err.includes(wrong[0]), err);
    }
  });
});

describe('bench', () => {
  const benchClients = () => {
    const log: string[] = [];
    const startBenchClient = async () => ({
      run: async ({ operation }: { operation: string }) => {
        log.push(operation);
        return { operations: 1000 * log.length, milliseconds: 1000 };
      },
      stop: async () => {
        log.push('stop');
      },
    });
    return { log, startBenchClient };
  };

  it('measures rounds and prints the median', async () => {
    const pools = new FakePools();
    pools.library().create('memory:');
    const { log, startBenchClient } = benchClients();
    const { code, out } = await stepwell(['bench'], { pools, startBenchClient });
    assert.equal(code, 0);
    assert.deepEqual(log, ['insert', ...Array(5).fill('get'), ...Array(5).fill('set'), 'stop']);
    assert.match(out, /^100,000 records of 32 bytes, 1 client, in memory:\n/);
    assert.match(out, /get +4,000 +2,000 +6,000 +250\.00 µs +5\n/);
    assert.ok(pools.store('memory:', 'bench-77'));
  });

  it('takes away the pool that it made, and clears its store in another', async () => {
    const pools = new FakePools();
    const { startBenchClient } = benchClients();
    const words = ['bench', URL, '--clients', '2', '--json', '-'];
    const { out } = await stepwell(words, { pools, startBenchClient });
    const report = JSON.parse(out);
    assert.equal(report.clients, 2);
    assert.equal(report.results[1].rounds.length, 5);
    assert.equal(pools.pools.has(URL), false);
    await stepwell(['set', URL, 'k', 'v'], { pools });
    await stepwell(words, { pools, startBenchClient });
    assert.equal(pools.store(URL).count, 1);
    assert.equal(pools.openStores, 0);
  });

  it('cleans up after a client that fails', async () => {
    const pools = new FakePools();
    const startBenchClient = async () => ({
      run: () => Promise.reject(new StepwellError('SW_POOL_FULL', 'full')),
      stop: async () => {},
    });
    assert.equal((await stepwell(['bench', URL], { pools, startBenchClient })).code, 3);
    assert.equal(pools.pools.has(URL), false);
    assert.equal((await stepwell(['bench', '--seconds', '0'])).code, 2);
  });

  it('stops the clients that started when another cannot', async () => {
    const { log, startBenchClient } = benchClients();
    const startOne = async ({ client }: { client: number }) => {
      if (client === 1) throw new StepwellError('SW_TOO_MANY_CLIENTS', 'the table is full');
      return await startBenchClient();
    };
    const words = ['bench', URL, '--clients', '3'];
    const { code, err } = await stepwell(words, { startBenchClient: startOne });
    assert.equal(code, 3);
    assert.match(err, /SW_TOO_MANY_CLIENTS/);
    assert.deepEqual(log, ['stop', 'stop']);
  });

  it('counts operations, and refuses to measure wrong answers', () => {
    const map = new Map<string, Uint8Array>();
    const store = {
      get: (key: string) => map.get(key),
      set: (key: string, value: Uint8Array) => map.set(key, value),
      insert: (key: string, value: Uint8Array) => !map.has(key) && map.set(key, value) === map,
    };
    const setup = { handle: '', store: '', client: 1, clients: 3, records: 100, valueSize: 8 };
    let time = 0;
    const tick = () => {
      time += 5;
      return time;
    };
    const loops = [0, 1, 2].map((client) => {
      return new BenchLoop(store as never, { ...setup, client }, tick);
    });
    const inserted = loops.map((loop) => loop.run({ operation: 'insert' }).operations);
    assert.deepEqual(inserted, [34, 33, 33]);
    assert.equal(map.size, 100);
    const task = { operation: 'get', milliseconds: 20 } as const;
    assert.deepEqual(loops[0].run(task), { operations: 4 * 256, milliseconds: 20 });
    loops[1].run({ operation: 'set', milliseconds: 20 });
    assert.equal(map.size, 100);
    map.clear();
    assert.throws(() => loops[0].run(task), /has not the value set/);
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 2, 3]), 2.5);
  });
});

describe('main', () => {
  it('can be run as a program', () => {
    const source = readFileSync(new globalThis.URL('../main.ts', import.meta.url), 'utf8');
    assert.ok(source.startsWith('#!/usr/bin/env node\n'));
  });
});

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Redis } from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';
import { serverFor } from './support/exchange.ts';

for (const RESP of [2, 3] as const) {
  describe(`node-redis with RESP${RESP}`, () => {
    it('does a round of every command', async (test) => {
      const { server } = await serverFor(test);
      // RESP3 is what it chooses by itself.
      const client = createClient({ url: server.url, name: 'me', ...(RESP === 2 && { RESP }) });
      await client.connect();
      test.after(() => client.destroy());

      assert.equal(await client.ping(), 'PONG');
      assert.equal(await client.echo('hi'), 'hi');
      assert.equal(await client.clientGetName(), 'me');
      assert.ok((await client.clientId()) > 0);
      await client.select(0);

      assert.equal(await client.get('a'), null);
      assert.equal(await client.set('a', '1'), 'OK');
      assert.equal(await client.set('a', '2', { condition: 'NX' }), null);
      assert.equal(await client.set('a', '2', { condition: 'XX', GET: true }), '1');
      assert.equal(await client.set('b', '3', { condition: 'NX', GET: true }), null);
      assert.equal(await client.setNX('b', '4'), 0);
      assert.equal(await client.getSet('b', '5'), '3');
      assert.equal(await client.getDel('b'), '5');
      assert.equal(await client.set('t', '1', { expiration: { type: 'EX', value: 100 } }), 'OK');
      assert.equal(await client.getDel('t'), '1');

      assert.equal(await client.mSet({ x: '10', y: 'text' }), 'OK');
      assert.deepEqual(await client.mGet(['x', 'no', 'y']), ['10', null, 'text']);
      assert.equal(await client.incr('x'), 11);
      assert.equal(await client.incrBy('x', 4), 15);
      assert.equal(await client.decr('x'), 14);
      assert.equal(await client.decrBy('x', 10), 4);
      await assert.rejects(client.incr('y'), /not an integer/);
      assert.equal(await client.strLen('y'), 4);
      assert.equal(await client.type('y'), 'string');
      assert.equal(await client.exists(['x', 'y', 'no']), 2);
      assert.equal(await client.dbSize(), 3);

      const bytes = Buffer.from([0, 255, 13, 10]);
      await client.set('bytes', bytes);
      const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
      assert.deepEqual(await binary.get('bytes'), bytes);

      const found: string[] = [];
      for await (const keys of client.scanIterator({ MATCH: '?', COUNT: 2 })) found.push(...keys);
      assert.deepEqual(found.sort(), ['a', 'x', 'y']);

      const many = await Promise.all(Array.from({ length: 200 }, (_, n) => client.incrBy('n', n)));
      assert.equal(many.at(-1), 19_900);
      const gets = await Promise.all(Array.from({ length: 200 }, () => client.get('n')));
      assert.deepEqual(new Set(gets), new Set(['19900']));

      assert.match(await client.info(), /loading:0/);
      assert.deepEqual({ ...(await client.configGet('save')) }, { save: '' });
      const count = await client.commandCount();
      assert.equal((await client.command()).length, count);
      const [described] = await client.commandInfo(['get']);
      assert.equal(described?.name, 'get');
      assert.equal(described?.arity, 2);
      assert.deepEqual([...(described?.flags ?? [])], ['readonly', 'fast']);
      const docs = await client.sendCommand(['COMMAND', 'DOCS', 'get']);
      assert.match(JSON.stringify(docs), /Returns the value of a key/);

      assert.equal(await client.del(['a', 'no']), 1);
      assert.equal(await client.unlink('x'), 1);
      assert.equal(await client.flushDb(), 'OK');
      assert.equal(await client.set('a', '1'), 'OK');
      assert.equal(await client.flushAll(), 'OK');
      assert.equal(await client.dbSize(), 0);
      await assert.rejects(client.sendCommand(['NOSUCH']), /unknown command 'NOSUCH'/);
      await client.close();
    });
  });
}

describe('ioredis', () => {
  it('does a round of every command', async (test) => {
    const { server } = await serverFor(test);
    const client = new Redis(server.address.port, server.address.host, { connectionName: 'me' });
    test.after(() => client.disconnect());

    assert.equal(await client.ping(), 'PONG');
    assert.equal(await client.echo('hi'), 'hi');
    assert.equal(await client.client('GETNAME'), 'me');
    assert.ok((await client.client('ID')) > 0);
    assert.equal(await client.select(0), 'OK');

    assert.equal(await client.get('a'), null);
    assert.equal(await client.set('a', '1'), 'OK');
    assert.equal(await client.set('a', '2', 'NX'), null);
    assert.equal(await client.set('a', '2', 'GET'), '1');
    assert.equal(await client.setnx('b', '4'), 1);
    assert.equal(await client.getset('b', '5'), '4');
    assert.equal(await client.getdel('b'), '5');
    assert.equal(await client.set('t', '1', 'PX', 5000), 'OK');
    assert.equal(await client.getdel('t'), '1');

    assert.equal(await client.mset('x', '10', 'y', 'text'), 'OK');
    assert.deepEqual(await client.mget('x', 'no', 'y'), ['10', null, 'text']);
    assert.equal(await client.incr('x'), 11);
    assert.equal(await client.incrby('x', 4), 15);
    assert.equal(await client.decr('x'), 14);
    assert.equal(await client.decrby('x', 10), 4);
    assert.equal(await client.strlen('y'), 4);
    assert.equal(await client.type('y'), 'string');
    assert.equal(await client.exists('x', 'y', 'no'), 2);
    assert.equal(await client.dbsize(), 3);

    const bytes = Buffer.from([0, 255, 13, 10]);
    await client.set('bytes', bytes);
    assert.deepEqual(await client.getBuffer('bytes'), bytes);

    const found: string[] = [];
    for await (const keys of client.scanStream({ match: '?', count: 2 })) found.push(...keys);
    assert.deepEqual(found.sort(), ['a', 'x', 'y']);

    const replies = await client.pipeline().get('a').get('x').get('no').incr('x').get('x').exec();
    assert.deepEqual(
      replies?.map(([, value]) => value),
      ['2', '4', null, 5, '5'],
    );

    assert.match(await client.info(), /loading:0/);
    assert.deepEqual(Object.values((await client.config('GET', 'save')) as object).at(-1), '');
    assert.ok(Number(await client.command('COUNT')) > 20);
    assert.equal(((await client.command('INFO', 'get')) as unknown[][])[0][0], 'get');
    assert.match(JSON.stringify(await client.command('DOCS', 'get')), /value of a key/);

    assert.equal(await client.del('a', 'no'), 1);
    assert.equal(await client.unlink('x'), 1);
    assert.equal(await client.flushdb(), 'OK');
    assert.equal(await client.flushall(), 'OK');
    assert.equal(await client.dbsize(), 0);
    assert.equal(await client.quit(), 'OK');
  });
});

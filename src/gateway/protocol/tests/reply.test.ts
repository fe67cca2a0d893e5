import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, it } from 'node:test';
import { type ProtocolVersion, ReplyWriter } from '../reply.ts';

/** node-redis' decoder, which its own users rely on, says what our bytes mean. */
const { Decoder } = createRequire(import.meta.url)('@redis/client/dist/lib/RESP/decoder');

function encode(protocol: ProtocolVersion, write: (reply: ReplyWriter) => void): Buffer {
  const reply = new ReplyWriter();
  reply.protocol = protocol;
  write(reply);
  const { length } = reply;
  const bytes = drain(reply);
  assert.equal(bytes.length, length);
  assert.equal(reply.length, 0);
  return bytes;
}

function drain(reply: ReplyWriter): Buffer {
  const parts: Uint8Array[] = [];
  reply.flush({ write: (bytes) => parts.push(bytes) });
  return Buffer.concat(parts);
}

function decode(bytes: Buffer, piece: number): unknown[] {
  const replies: unknown[] = [];
  const decoder = new Decoder({
    onReply: (reply: unknown) => replies.push(reply),
    onErrorReply: (error: Error) => replies.push(error.message),
    onPush: () => assert.fail('the gateway never pushes'),
    getTypeMapping: () => ({}),
  });
  for (let at = 0; at < bytes.length; at += piece) decoder.write(bytes.subarray(at, at + piece));
  return replies;
}

interface Case {
  name: string;
  write(reply: ReplyWriter): void;
  resp2: string;
  resp3: string;
  /** Decoded values; RESP2 and RESP3 where they differ. */
  values: readonly [unknown, unknown?];
}

const CASES: Case[] = [
  { name: 'OK', write: (r) => r.ok(), resp2: '+OK\r\n', resp3: '+OK\r\n', values: ['OK'] },
  {
    name: 'PONG',
    write: (r) => r.pong(),
    resp2: '+PONG\r\n',
    resp3: '+PONG\r\n',
    values: ['PONG'],
  },
  {
    name: 'simple string',
    write: (r) => r.simple('string'),
    resp2: '+string\r\n',
    resp3: '+string\r\n',
    values: ['string'],
  },
  {
    name: 'error',
    write: (r) => r.error('ERR bad\r\n+OK\r\n'),
    resp2: '-ERR bad  +OK  \r\n',
    resp3: '-ERR bad  +OK  \r\n',
    values: ['ERR bad  +OK  '],
  },
  ...[0, 1, 7, 10, 99, 100, -1, -10, 2 ** 31 - 1, 2 ** 31, 2 ** 40, 42n].map((value) => ({
    name: `integer ${value}`,
    write: (r: ReplyWriter) => r.integer(value),
    resp2: `:${value}\r\n`,
    resp3: `:${value}\r\n`,
    values: [Number(value)] as const,
  })),
  {
    name: 'bigint',
    write: (r) => r.integer(-(2n ** 63n)),
    resp2: ':-9223372036854775808\r\n',
    resp3: ':-9223372036854775808\r\n',
    values: [-(2 ** 63)],
  },
  {
    name: 'null',
    write: (r) => r.bulkOrNull(undefined),
    resp2: '$-1\r\n',
    resp3: '_\r\n',
    values: [null],
  },
  {
    name: 'null array',
    write: (r) => r.nullArray(),
    resp2: '*-1\r\n',
    resp3: '_\r\n',
    values: [null],
  },
  {
    name: 'empty bulk',
    write: (r) => r.bulk(new Uint8Array()),
    resp2: '$0\r\n\r\n',
    resp3: '$0\r\n\r\n',
    values: [''],
  },
  {
    name: 'bulk of text',
    write: (r) => r.bulk('zwölf'),
    resp2: Buffer.from('$6\r\nzwölf\r\n').toString('latin1'),
    resp3: Buffer.from('$6\r\nzwölf\r\n').toString('latin1'),
    values: ['zwölf'],
  },
  {
    name: 'bulk with line breaks',
    write: (r) => r.bulk(Buffer.from('a\r\nb')),
    resp2: '$4\r\na\r\nb\r\n',
    resp3: '$4\r\na\r\nb\r\n',
    values: ['a\r\nb'],
  },
  {
    name: 'verbatim',
    write: (r) => r.verbatim('# A\r\nb:1\r\n'),
    resp2: '$10\r\n# A\r\nb:1\r\n\r\n',
    resp3: '=14\r\ntxt:# A\r\nb:1\r\n\r\n',
    values: ['# A\r\nb:1\r\n'],
  },
  {
    name: 'nested arrays',
    write(r) {
      r.array(2);
      r.array(0);
      r.array(1);
      r.integer(5);
    },
    resp2: '*2\r\n*0\r\n*1\r\n:5\r\n',
    resp3: '*2\r\n*0\r\n*1\r\n:5\r\n',
    values: [[[], [5]]],
  },
  {
    name: 'map',
    write(r) {
      r.map(1);
      r.bulk('a');
      r.integer(1);
    },
    resp2: '*2\r\n$1\r\na\r\n:1\r\n',
    resp3: '%1\r\n$1\r\na\r\n:1\r\n',
    values: [['a', 1], { a: 1 }],
  },
  {
    name: 'set',
    write(r) {
      r.set(2);
      r.simple('a');
      r.simple('b');
    },
    resp2: '*2\r\n+a\r\n+b\r\n',
    resp3: '~2\r\n+a\r\n+b\r\n',
    values: [['a', 'b']],
  },
];

describe('ReplyWriter', () => {
  for (const { name, write, resp2, resp3, values } of CASES) {
    it(`writes ${name}`, () => {
      const [two, three = two] = values;
      const bytes2 = encode(2, write);
      const bytes3 = encode(3, write);
      assert.equal(bytes2.toString('latin1'), resp2);
      assert.equal(bytes3.toString('latin1'), resp3);
      for (const piece of [1, Number.POSITIVE_INFINITY]) {
        assert.deepEqual(decode(bytes2, piece), [two]);
        assert.deepEqual(decode(bytes3, piece), [three]);
      }
    });
  }

  it('keeps the order of replies of all sizes', () => {
    const lengths = [0, 1, 16_000, 400, 16_384, 16_385, 3, 100_000, 16_300, 16_300, 9];
    const values = lengths.map((length, index) => Buffer.alloc(length, 97 + index));
    const bytes = encode(2, (reply) => {
      for (const value of values) {
        reply.bulk(value);
        reply.integer(value.length);
      }
    });
    const expected = values.flatMap((value) => [value.toString(), value.length]);
    assert.deepEqual(decode(bytes, Number.POSITIVE_INFINITY), expected);
    assert.deepEqual(decode(bytes, 7), expected);
  });

  it('does not overwrite bytes that the sink may still hold', () => {
    const reply = new ReplyWriter();
    const held: Uint8Array[] = [];
    const sink = { write: (bytes: Uint8Array) => held.push(bytes) };
    for (let value = 100; value < 5000; value++) {
      reply.integer(value);
      reply.flush(sink);
    }
    const expected = Array.from({ length: 4900 }, (_, index) => index + 100);
    assert.deepEqual(decode(Buffer.concat(held), Number.POSITIVE_INFINITY), expected);
  });

  it('uses memory again that the sink has let go of', () => {
    const reply = new ReplyWriter();
    const first: Uint8Array[] = [];
    reply.ok();
    reply.flush({ write: (bytes) => first.push(bytes) });
    reply.reuse();
    reply.integer(22);
    assert.equal(drain(reply).toString(), ':22\r\n');
    assert.equal(Buffer.from(first[0]).toString(), ':22\r\n');
  });

  it('forgets nothing when memory is released before a flush', () => {
    const reply = new ReplyWriter();
    reply.ok();
    reply.reuse();
    reply.pong();
    assert.equal(drain(reply).toString(), '+OK\r\n+PONG\r\n');
  });
});

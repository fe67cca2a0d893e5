import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { GATEWAY_LIMITS } from '../../settings.ts';
import { array } from '../../tests/support/exchange.ts';
import { RequestReader, requestLimits, splitInline } from '../request-reader.ts';

interface Outcome {
  requests: string[][];
  failure: string | undefined;
}

const LIMITS = {
  bulkBytesMax: 1000,
  argumentsMax: 20,
  requestBytesMax: 2000,
  inlineBytesMax: 100,
  excess: 'invalid' as const,
};

function read(bytes: Uint8Array | string, piece: number, limits = LIMITS): Outcome {
  const reader = new RequestReader(limits);
  const all = Buffer.from(bytes as string);
  const requests: string[][] = [];
  for (let at = 0; at < all.length; at += piece) {
    // A copy, because in use every chunk is memory of its own too.
    for (const request of reader.push(Buffer.from(all.subarray(at, at + piece)))) {
      requests.push(request.map((word) => word.toString('latin1')));
    }
    assert.ok(reader.heldBytes <= limits.requestBytesMax);
  }
  return { requests, failure: reader.failure };
}

const WHOLE = Number.POSITIVE_INFINITY;

describe('RequestReader', () => {
  const cases: [name: string, bytes: string, requests: string[][], failure?: string][] = [
    ['an array', '*1\r\n$4\r\nPING\r\n', [['PING']]],
    ['arguments with line breaks', '*2\r\n$3\r\nGET\r\n$4\r\n\r\n*1\r\n', [['GET', '\r\n*1']]],
    ['empty arguments', '*2\r\n$3\r\nGET\r\n$0\r\n\r\n', [['GET', '']]],
    [
      'a pipeline',
      '*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$2\r\ncc\r\n*1\r\n$1\r\nd\r\n',
      [['a'], ['b', 'cc'], ['d']],
    ],
    ['empty and null arrays', '*0\r\n*-1\r\n*-0\r\n*-22\r\n*1\r\n$1\r\na\r\n', [['a']]],
    [
      'inline commands',
      'PING\r\nGET a\n\r\n\nSET a "b c"\r\n',
      [['PING'], ['GET', 'a'], ['SET', 'a', 'b c']],
    ],
    [
      'inline commands among arrays',
      'PING\r\n*1\r\n$1\r\na\r\nGET b\r\n*1\r\n$1\r\nc\r\n*1\r\n$1\r\nd\r\nPING\r\n',
      [['PING'], ['a'], ['GET', 'b'], ['c'], ['d'], ['PING']],
    ],
    ['an unfinished array', '*2\r\n$3\r\nGET\r\n$5\r\nabc', []],
    ['an unfinished line', 'PING\r\nPIN', [['PING']]],
    ['reply types as inline words', '+OK\r\n$3\r\n', [['+OK'], ['$3']]],
    ['a missing dollar', '*1\r\n:1\r\n', [], "expected '$', got ':'"],
    ['a nested array', '*1\r\n*1\r\n$1\r\na\r\n', [], "expected '$', got '*'"],
    ['a count that is no number', '*x\r\n', [], 'invalid multibulk length'],
    ['a missing count', '*\r\n', [], 'invalid multibulk length'],
    ['a sign without a count', '*-\r\n', [], 'invalid multibulk length'],
    ['a count above the limit', '*21\r\n', [], 'invalid multibulk length'],
    ['an endless count', '*000000000001\r\n', [], 'invalid multibulk length'],
    ['a length that is no number', '*1\r\n$4x\r\n', [], 'invalid bulk length'],
    ['a negative length', '*1\r\n$-1\r\n', [], 'invalid bulk length'],
    ['a length above the limit', '*1\r\n$1001\r\n', [], 'invalid bulk length'],
    ['a line feed missing', '*1\rX', [], 'invalid multibulk length'],
    ['a bare line feed', '*1\n', [], 'invalid multibulk length'],
    [
      'good requests before a bad one',
      '*1\r\n$1\r\na\r\n*1\r\nx',
      [['a']],
      "expected '$', got 'x'",
    ],
    ['nothing after a failure', '*x\r\nPING\r\n', [], 'invalid multibulk length'],
    ['a quote that is not closed', 'GET "a\r\n', [], 'unbalanced quotes in request'],
    ['POST', 'POST / HTTP/1.1\r\nDEL a\r\n', [], 'this is not an HTTP server'],
    ['Host', 'GET /\r\nHost: a\r\n', [['GET', '/']], 'this is not an HTTP server'],
  ];
  for (const [name, bytes, requests, failure] of cases) {
    it(`reads ${name}, whole and byte by byte`, () => {
      assert.deepEqual(read(bytes, WHOLE), { requests, failure });
      for (const piece of [1, 2, 3, 7]) {
        assert.deepEqual(read(bytes, piece), { requests, failure }, `in pieces of ${piece}`);
      }
    });
  }

  it('bounds inline commands', () => {
    const failure = 'too big inline request';
    for (const piece of [1, 60, WHOLE]) {
      assert.deepEqual(read(`${'a'.repeat(200)}\r\n`, piece), { requests: [], failure });
      assert.deepEqual(read('a'.repeat(200), piece), { requests: [], failure });
    }
  });

  it('bounds what it holds of one request, before the bytes come', () => {
    const words = Array.from({ length: 3 }, () => 'x'.repeat(900));
    const failure = 'request is too large';
    for (const piece of [1, 500]) {
      assert.deepEqual(read(array(...words), piece), { requests: [], failure });
    }
    const reader = new RequestReader(LIMITS);
    reader.push(array('x'.repeat(900), 'x'.repeat(900)).subarray(0, -2));
    assert.equal(reader.failure, undefined);
    assert.ok(reader.heldBytes > 1800);
  });

  it('holds nothing between requests', () => {
    const reader = new RequestReader(LIMITS);
    for (const byte of array('GET', 'a')) reader.push(Buffer.from([byte]));
    assert.equal(reader.heldBytes, 0);
  });

  it('accepts the longest value that a store takes, with the longest key', () => {
    const limits = requestLimits(GATEWAY_LIMITS.requestBytesMax);
    const value = Buffer.alloc(64 * 1024 * 1024, 1);
    const bytes = array('SET', Buffer.alloc(65_535), value);
    const reader = new RequestReader(limits);
    const requests = [];
    for (let at = 0; at < bytes.length; at += 65_536) {
      requests.push(...reader.push(bytes.subarray(at, at + 65_536)));
    }
    assert.equal(reader.failure, undefined);
    assert.equal(requests.length, 1);
    assert.ok(requests[0][2].equals(value));
    reader.push(Buffer.from(`*1\r\n$${limits.bulkBytesMax + 1}\r\n`));
    assert.equal(reader.failure, 'invalid bulk length');
  });

  it('reads the same however the bytes are cut', () => {
    const word = fc.uint8Array({ maxLength: 40 });
    const request = fc.array(word, { minLength: 1, maxLength: 5 });
    const pieces = fc.integer({ min: 1, max: 60 });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 6 }), pieces, (requests, piece) => {
        const bytes = Buffer.concat(requests.map((words) => array(...words)));
        const expected = requests.map((words) =>
          words.map((each) => Buffer.from(each).toString('latin1')),
        );
        assert.deepEqual(read(bytes, piece), { requests: expected, failure: undefined });
      }),
    );
  });

  it('survives any bytes', () => {
    const noise = fc.array(
      fc.oneof(
        fc.constantFrom('*', '$', '\r\n', '1', '2', '-1', '*1\r\n', '$3\r\n', 'abc', '"', "'"),
        fc.string({ unit: 'binary', maxLength: 3 }),
      ),
      { maxLength: 30 },
    );
    fc.assert(
      fc.property(noise, fc.integer({ min: 1, max: 10 }), (parts, piece) => {
        const bytes = Buffer.from(parts.join(''));
        assert.deepEqual(read(bytes, piece), read(bytes, WHOLE));
      }),
      { numRuns: 300 },
    );
  });
});

function split(line: string): string[] | undefined {
  return splitInline(Buffer.from(line, 'latin1'))?.map((word) => word.toString('latin1'));
}

describe('splitInline', () => {
  const cases: [line: string, words: string[] | undefined][] = [
    ['', []],
    [' \t\r\n', []],
    ['PING\r\n', ['PING']],
    ['  GET   a \n', ['GET', 'a']],
    ['SET a "x y"', ['SET', 'a', 'x y']],
    ["SET a 'x y'", ['SET', 'a', 'x y']],
    ['SET "" \'\'', ['SET', '', '']],
    ['"a\\n\\r\\t\\b\\a\\"\\\\\\q"', ['a\n\r\t\b\x07"\\q']],
    ['"\\x00\\xfF\\x1"', ['\x00\xffx1']],
    ["'it\\'s \\n'", ["it's \\n"]],
    ['a"b c"', ['ab c']],
    ["a'b c'", ['ab c']],
    ['key\xa0\xc3\x85', ['key\xa0\xc3\x85']],
    ['"a"b', undefined],
    ['"a""b"', undefined],
    ['"a', undefined],
    ["'a", undefined],
    ['"a\\"', undefined],
    ["'a\\'", undefined],
    ['a"', undefined],
  ];
  for (const [line, words] of cases) {
    it(`splits ${JSON.stringify(line)}`, () => assert.deepEqual(split(line), words));
  }

  it('ends on long lines whose quotes are not closed', () => {
    assert.equal(split(`"${'\\x41'.repeat(15_000)}`), undefined);
    assert.equal(split(`'${"\\'".repeat(30_000)}`), undefined);
    assert.equal(split('a"'.repeat(10_001)), undefined);
  });
});

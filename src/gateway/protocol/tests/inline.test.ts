import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { splitInline } from '../inline.ts';

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

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { Glob } from '../glob.ts';

function matches(pattern: string, text: string, options?: { ignoreCase?: boolean }): boolean {
  return new Glob(Buffer.from(pattern, 'latin1'), options).matches(Buffer.from(text, 'latin1'));
}

const YES: [pattern: string, text: string][] = [
  ['', ''],
  ['*', ''],
  ['*', 'anything'],
  ['**', 'x'],
  ['a*', 'a'],
  ['*a', 'bca'],
  ['a*b*c', 'a--b--b-c'],
  ['user:*:name', 'user:12:name'],
  ['h?llo', 'hello'],
  ['h[ae]llo', 'hallo'],
  ['h[^e]llo', 'hbllo'],
  ['h[a-c]llo', 'hbllo'],
  ['h[c-a]llo', 'hbllo'],
  ['[\\]]', ']'],
  ['[\\a-c]x', 'cx'],
  // As in Redis the range ends with the bracket, which then does not close the set.
  ['[a-]', 'a'],
  ['[a-]', '_'],
  ['[a', 'a'],
  ['\\*', '*'],
  ['\\?x', '?x'],
  ['a\\', 'a\\'],
  ['?', '\n'],
  ['*\xff', 'a\xff'],
  ['[\x80-\xff]', '\xc3'],
  ['[^]', 'x'],
];

const NO: [pattern: string, text: string][] = [
  ['', 'a'],
  ['a', ''],
  ['?', ''],
  ['a', 'A'],
  ['a', 'ab'],
  ['h?llo', 'hllo'],
  ['h[ae]llo', 'hillo'],
  ['h[^e]llo', 'hello'],
  ['h[a-c]llo', 'hdllo'],
  ['\\*', 'x'],
  ['a*b', 'ac'],
  ['[]', 'x'],
  ['[]a]', 'a'],
  ['*a', 'ab'],
  ['[a-]', '-'],
];

describe('Glob', () => {
  for (const [pattern, text] of YES) {
    it(`${JSON.stringify(pattern)} matches ${JSON.stringify(text)}`, () => {
      assert.equal(matches(pattern, text), true);
    });
  }

  for (const [pattern, text] of NO) {
    it(`${JSON.stringify(pattern)} does not match ${JSON.stringify(text)}`, () => {
      assert.equal(matches(pattern, text), false);
    });
  }

  it('can ignore the case of ASCII letters', () => {
    assert.equal(matches('MAX*', 'maxmemory', { ignoreCase: true }), true);
    assert.equal(matches('m[A-B]x', 'MAX', { ignoreCase: true }), true);
    assert.equal(matches('\xc4', '\xe4', { ignoreCase: true }), false);
  });

  it('knows the pattern that matches everything', () => {
    assert.equal(new Glob(Buffer.from('*')).matchesAll, true);
    assert.equal(new Glob(Buffer.from('***')).matchesAll, true);
    assert.equal(new Glob(Buffer.from('?*')).matchesAll, false);
    assert.equal(new Glob(Buffer.from('')).matchesAll, false);
  });

  it('ends on patterns that defeat plain backtracking', () => {
    assert.equal(matches(`${'a*'.repeat(2000)}b`, 'a'.repeat(20_000)), false);
    assert.equal(matches(`${'*a'.repeat(50)}*b`, 'a'.repeat(5000)), false);
  });

  it('agrees with the same pattern as a regular expression', () => {
    const piece = fc.constantFrom('a', 'b', '*', '?', '[ab]', '[^a]', '[a-b]', '\\*');
    const expressions: Record<string, string> = { '*': '.*', '?': '.' };
    const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '*'), maxLength: 8 });
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), text, (pieces, subject) => {
        const source = pieces.map((each) => expressions[each] ?? each).join('');
        assert.equal(matches(pieces.join(''), subject), new RegExp(`^${source}$`).test(subject));
      }),
    );
  });
});

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { PROGRAMS } from '../../programs.ts';
import { measuredBlocks } from '../measured-blocks.ts';

const BEGIN = '<!-- measured: simulate latency --seed 2 -->';
const END = '<!-- end of measured -->';

describe('blocks that a program writes', () => {
  it('name their program and their lines', () => {
    const blocks = measuredBlocks(['# Page', BEGIN, 'old', END, 'text', BEGIN, END]);
    const words = ['simulate', 'latency', '--seed', '2'];
    assert.deepEqual(blocks, [
      { words, from: 2, end: 3 },
      { words, from: 6, end: 6 },
    ]);
  });

  it('are refused where a mark stands alone, with its line', () => {
    assert.throws(() => measuredBlocks(['', END]), /^Error: line 2: /);
    assert.throws(() => measuredBlocks([BEGIN, BEGIN, END]), /^Error: line 2: /);
    assert.throws(() => measuredBlocks([BEGIN, 'text']), /^Error: line 1: .* does not end/);
  });

  it('of the measurement pages name programs that exist', () => {
    const folder = join(import.meta.dirname, '../../../docs/measurements');
    const named = readdirSync(folder).flatMap((page) =>
      measuredBlocks(readFileSync(join(folder, page), 'utf8').split('\n')).map(
        ({ words }) => words[0],
      ),
    );
    assert.ok(named.length > 0);
    for (const name of named) assert.ok(Object.hasOwn(PROGRAMS, name), name);
  });
});

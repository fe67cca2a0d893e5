/** Sizes, tables, progress lines, patterns and styles: whatever only makes text of values. */

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatCount, formatSize } from '../../store/watching/units.ts';
import { globToRegExp } from '../commands/dump.ts';
import { UsageError } from '../failures.ts';
import {
  formatDuration,
  formatRatio,
  parseCount,
  parseSeconds,
  parseSize,
  plural,
} from '../sizes.ts';
import { Output } from '../terminal/output.ts';
import { Progress, progressLine } from '../terminal/progress.ts';
import { printable, styleFor } from '../terminal/style.ts';
import { facts, table } from '../terminal/table.ts';
import { Recorder } from './support/terminal.ts';

const plain = styleFor(false, {});

describe('sizes', () => {
  it('reads the usual notations', () => {
    const cases: [string, number][] = [
      ['1048576', 1048576],
      ['512m', 512 * 2 ** 20],
      ['4g', 4 * 2 ** 30],
      ['4GiB', 4 * 2 ** 30],
      ['4 gib', 4 * 2 ** 30],
      ['1.5G', 1.5 * 2 ** 30],
      ['2t', 2 * 2 ** 40],
      ['64k', 65536],
      ['10B', 10],
      ['4GB', 4e9],
      ['0', 0],
    ];
    for (const [text, bytes] of cases) assert.equal(parseSize(text), bytes, text);
  });

  it('refuses everything else', () => {
    for (const text of ['', 'g', '-1', '4x', '1.3', '0.3k', '1e3', '4gg', 'NaN', '99999999t']) {
      assert.throws(() => parseSize(text), UsageError, text);
    }
  });

  it('writes sizes, counts, ratios and durations', () => {
    assert.equal(formatSize(0), '0 B');
    assert.equal(formatSize(1023), '1023 B');
    assert.equal(formatSize(1536), '1.5 KiB');
    assert.equal(formatSize(4 * 2 ** 30), '4 GiB');
    assert.equal(formatSize(123.4 * 2 ** 20), '123 MiB');
    assert.equal(formatSize(3000 * 2 ** 40), '3000 TiB');
    assert.equal(formatCount(171075), '171,075');
    assert.equal(plural(1, 'record'), '1 record');
    assert.equal(plural(0, 'record'), '0 records');
    assert.equal(formatRatio(0.4567), '45.7%');
    assert.equal(formatDuration(1.25), '1.3 s');
    assert.equal(formatDuration(245), '4:05');
    assert.equal(formatDuration(3723), '1:02:03');
  });

  it('reads counts and seconds within their ranges', () => {
    assert.equal(parseCount(0, 10)('10'), 10);
    assert.equal(parseSeconds('.5'), 0.5);
    for (const text of ['11', '-1', '1.5', 'x', '', '0x1']) {
      assert.throws(() => parseCount(0, 10)(text), /from 0 to 10/, text);
    }
    assert.throws(() => parseCount(1)('0'), /at least 1/);
    for (const text of ['0', '-1', 'x', '', '1e9']) assert.throws(() => parseSeconds(text), text);
  });
});

describe('tables', () => {
  it('aligns columns and leaves no trailing space', () => {
    const text = table(
      'NAME | N:',
      [
        ['a', '1'],
        ['longer', '1,000'],
      ],
      plain,
    );
    assert.equal(text, 'NAME        N\na           1\nlonger  1,000');
    assert.equal(
      facts(
        [
          ['A', '1'],
          ['Long', ''],
        ],
        plain,
      ),
      'A     1\nLong  ',
    );
  });

  it('shows control characters instead of sending them to the terminal', () => {
    assert.equal(printable('a\u001b[31m\n\u202eb'), 'a\\u{1b}[31m\\u{a}\\u{202e}b');
    assert.ok(!table('N', [['\u001b]0;x\u0007']], plain).includes('\u001b'));
  });
});

describe('styles', () => {
  it('colours terminals only, and not against the wish of their users', () => {
    assert.equal(styleFor(true, {}).red('x'), '\u001b[31mx\u001b[39m');
    assert.equal(styleFor(false, {}).red('x'), 'x');
    assert.equal(styleFor(true, { NO_COLOR: '1' }).red('x'), 'x');
    assert.equal(styleFor(true, { NO_COLOR: '' }).bold('x'), '\u001b[1mx\u001b[22m');
    assert.equal(styleFor(true, { TERM: 'dumb' }).dim('x'), 'x');
  });
});

describe('progress', () => {
  const state = {
    label: 'loading',
    unit: 'bytes' as const,
    done: 512 * 1024,
    total: 2 * 2 ** 20,
    records: 1000,
    elapsedMs: 2000,
  };

  it('tells share, amount, records, rate and time left', () => {
    assert.equal(
      progressLine(state, 200, plain),
      'loading ██████░░░░░░░░░░░░░░░░░░  25.0%  512 KiB of 2 MiB  1,000 records  500 records/s' +
        '  6.0 s left',
    );
  });

  it('leaves out what does not fit', () => {
    assert.equal(progressLine(state, 45, plain), 'loading ██████░░░░░░░░░░░░░░░░░░  25.0%');
    assert.ok(progressLine(state, 60, plain).length < 60);
  });

  it('does without a total, records or elapsed time', () => {
    const open = { ...state, total: undefined };
    assert.equal(progressLine(open, 200, plain), 'loading  512 KiB  1,000 records  500 records/s');
    const begun = { ...state, done: 0, records: undefined, elapsedMs: 0 };
    assert.equal(progressLine(begun, 200, plain), `loading ${'░'.repeat(24)}  0.0%  0 B of 2 MiB`);
    const over = { ...state, done: 3 * 2 ** 20, unit: 'steps' as const };
    assert.match(progressLine(over, 200, plain), /█{24} {2}100.0%/);
  });

  const drive = (isTTY: boolean) => {
    const recorder = new Recorder(isTTY);
    let now = 0;
    const context = { stderr: new Output(recorder), env: {}, now: () => now };
    const progress = new Progress(context, 'loading', 'bytes');
    for (now = 0; now <= 12_000; now += 50) progress.update(now, 12_000);
    progress.clear();
    return recorder;
  };

  it('redraws one line on a terminal and takes it away at the end', () => {
    const { chunks, text } = drive(true);
    assert.equal(chunks.length, 121);
    assert.ok(
      chunks.slice(0, -1).every((chunk) => chunk.toString().startsWith('\r\x1b[2Kloading')),
    );
    assert.ok(text.endsWith('\r\x1b[2K'));
  });

  it('fits 80 columns where the terminal does not know its width', () => {
    const recorder = new Recorder(true);
    recorder.columns = 0;
    assert.equal(new Output(recorder).columns, 80);
  });

  it('writes a line per five seconds elsewhere', () => {
    const { text } = drive(false);
    assert.equal(text.split('\n').length, 3);
    assert.ok(!text.includes('\x1b'));
  });
});

describe('patterns', () => {
  it('match whole keys', () => {
    const cases: [string, string, boolean][] = [
      ['user:*', 'user:1', true],
      ['user:*', 'a user:1', false],
      ['*', '', true],
      ['a?c', 'a😀c', true],
      ['a?c', 'ac', false],
      ['[a-c]x', 'bx', true],
      ['[^a-c]x', 'bx', false],
      ['[^a-c]x', '-x', true],
      ['\\*', '*', true],
      ['\\*', 'a', false],
      ['[\\]]', ']', true],
      ['a.c', 'abc', false],
      ['a*c', 'a\nc', true],
      ['😀*', '😀!', true],
      ['(x|y)$^', '(x|y)$^', true],
      ['a-b\\', 'a-b\\', true],
      ['[.]', 'x', false],
      ['[a\\-c]', 'b', false],
      ['[a\\-c]', '-', true],
    ];
    for (const [pattern, key, matches] of cases) {
      assert.equal(globToRegExp(pattern).test(key), matches, `${pattern} on ${key}`);
    }
  });

  it('refuse sets that make no sense', () => {
    assert.throws(() => globToRegExp('[a'), UsageError);
    assert.throws(() => globToRegExp('[z-a]'), UsageError);
  });
});

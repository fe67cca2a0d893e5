import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import { defineCommand } from '../command.ts';
import { STEPWELL } from '../commands/index.ts';
import { UsageError } from '../failures.ts';
import { helpFor, nearest, parse } from '../run.ts';
import { parseCount } from '../sizes.ts';

const sample = defineCommand({
  name: 'sample',
  arguments: '<url> <key> [value]',
  summary: 'A command for tests',
  details: '  More about it.',
  options: {
    store: { value: 'NAME', about: 'a name' },
    count: { value: 'N', read: parseCount(1, 9), about: 'a number' },
    json: { about: 'a flag', short: 'j' },
  },
  examples: ['sample shm:demo key'],
  run: async () => 0,
});
const many = defineCommand({
  name: 'many',
  arguments: '<url> <...keys>',
  summary: 'Takes any number of words',
  options: {},
  examples: [],
  run: async () => 0,
});
const commands = [sample, many];
const help = helpFor({ name: 'stepwell', commands, examples: [] }, '1.2.3');

function read(...words: string[]) {
  const request = parse(words, commands, help.argumentsOf);
  assert.equal(request.kind, 'run');
  return request as Extract<typeof request, { kind: 'run' }>;
}

function usageError(...words: string[]): UsageError {
  try {
    parse(words, commands, help.argumentsOf);
  } catch (error) {
    assert.ok(error instanceof UsageError, String(error));
    return error;
  }
  assert.fail('no error');
}

describe('command line words', () => {
  it('leaves keys and values exactly as they were typed', () => {
    for (const word of ['007', '1e3', '0x10', '-', 'true', '', ' ', 'a=b', 'null', '１']) {
      const { args, options } = read('sample', 'shm:x', '--json', word, word);
      assert.deepEqual(args, ['shm:x', word, word]);
      assert.equal(options.json, true);
      assert.equal(read('sample', 'u', 'k', `--store=${word}`).options.store, word);
    }
  });

  it('takes words after -- as they are', () => {
    const { args, options } = read('sample', 'shm:x', '--', '--json', '-5');
    assert.deepEqual(args, ['shm:x', '--json', '-5']);
    assert.equal(options.json, false);
  });

  it('takes options anywhere, in both notations, the last one winning', () => {
    const { options } = read('sample', '--store', 'a', 'u', '-j', 'k', '--count=3', '--store=b');
    assert.equal(options.store, 'b');
    assert.equal(options.count, 3);
    assert.equal(options.json, true);
  });

  it('takes a lone dash, but no option, as a value', () => {
    assert.equal(read('sample', 'u', 'k', '--store', '-').options.store, '-');
    assert.match(usageError('sample', 'u', 'k', '--store', '--json').message, /needs a value/);
    assert.match(usageError('sample', 'u', 'k', '--store').message, /needs a value \(NAME\)/);
  });

  it('says what is missing or too much, with an example', () => {
    const error = usageError('sample');
    assert.match(error.message, /'sample' needs <url>/);
    assert.equal(error.example, 'sample shm:demo key');
    assert.match(usageError('sample', 'u').message, /needs <key>/);
    assert.match(usageError('many', 'u').message, /needs <keys>/);
    assert.match(usageError('sample', 'u', 'k', 'v', 'w').message, /no use for 'w'/);
    assert.deepEqual(read('many', 'u', 'a', 'b', 'c').args, ['u', 'a', 'b', 'c']);
  });

  it('refuses what it does not know, with a guess', () => {
    assert.match(usageError('sampel', 'u').message, /unknown command 'sampel'.*mean sample\?/);
    assert.doesNotMatch(usageError('zzzzzz').message, /mean/);
    assert.match(usageError('sample', 'u', 'k', '--stor', 'x').message, /mean --store\?/);
    assert.match(usageError('sample', 'u', '-5').message, /write -- before words/);
    assert.match(usageError('sample', 'u', 'k', '--json=1').message, /takes no value/);
    assert.match(usageError('--store=x', 'sample').message, /unknown option --store/);
    assert.match(usageError('sample', 'u', '--__proto__').message, /unknown option/);
    assert.match(usageError('sample', 'u', 'k', '--count', '10').message, /--count: '10' is not/);
  });

  it('sees wishes for help and version', () => {
    const kinds = (...words: string[]) => parse(words, commands, help.argumentsOf);
    assert.deepEqual(kinds(), { kind: 'help' });
    assert.deepEqual(kinds('--debug', '-v'), { kind: 'version' });
    assert.deepEqual(kinds('help'), { kind: 'help' });
    assert.deepEqual(kinds('help', 'many'), { kind: 'help', command: many });
    assert.deepEqual(kinds('sample', '-h'), { kind: 'help', command: sample });
    assert.deepEqual(kinds('--help', 'sample'), { kind: 'help', command: sample });
  });
});

describe('help', () => {
  const shown = (command?: Parameters<typeof help.print>[0], from = help) => {
    const info = mock.method(console, 'info', () => {});
    from.print(command);
    info.mock.restore();
    return String(info.mock.calls[0].arguments[0]);
  };

  it('shows usage, details, options and examples of a command', () => {
    const text = shown(sample);
    for (const part of [
      'stepwell sample <url> <key> [value]',
      'More about it.',
      '--store <NAME>',
      '-j, --json',
      'npx stepwell sample shm:demo key',
    ]) {
      assert.ok(text.includes(part), part);
    }
    assert.ok(!text.includes('many'));
  });

  it('lists every real command, and each has an example that parses', () => {
    const real = helpFor(STEPWELL, '1.2.3');
    const overview = shown(undefined, real);
    for (const command of STEPWELL.commands) {
      assert.ok(overview.includes(command.name));
      assert.ok(shown(command, real).includes('Examples:'), command.name);
      for (const example of command.examples) {
        const words = example
          .split(/ [|<>]/)[0]
          .replaceAll(/['"]/g, '')
          .split(' ');
        assert.equal(parse(words, STEPWELL.commands, real.argumentsOf).kind, 'run', example);
      }
    }
  });
});

describe('nearest', () => {
  it('guesses only what is close', () => {
    assert.equal(nearest('inspct', ['inspect', 'check']), 'inspect');
    assert.equal(nearest('desroy', ['destroy', 'create']), 'destroy');
    assert.equal(nearest('x', ['get', 'set']), undefined);
    assert.equal(nearest('banana', ['get', 'set']), undefined);
  });
});

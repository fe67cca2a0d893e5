import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ErrorCode, StepwellError } from '../../errors.ts';
import { type Command, CommandTable } from '../command.ts';
import { dispatch, errorText } from '../dispatch.ts';
import { COMMANDS } from '../server.ts';
import { startConnection } from './support/slow-socket.ts';

function run(words: string[], { failure, commands = COMMANDS }: RunOptions = {}) {
  const { connection, store, failures, totals } = startConnection();
  store.failure = failure;
  const context = Object.create(connection, { commands: { value: commands } });
  const request = words.map((word) => Buffer.from(word));
  store.pool.run(dispatch(request, context));
  const { reply, state } = connection;
  const parts: Uint8Array[] = [];
  reply.flush({ write: (bytes) => parts.push(bytes) });
  return {
    text: Buffer.concat(parts).toString(),
    reported: failures,
    state,
    errors: totals.errors,
  };
}

interface RunOptions {
  failure?: unknown;
  commands?: CommandTable;
}

describe('dispatch', () => {
  it('replies with the error of the store, which is not reported', () => {
    const failure = new StepwellError('SW_POOL_FULL', 'no memory left');
    const { text, reported, state, errors } = run(['SET', 'a', '1'], { failure });
    assert.equal(text, '-OOM command not allowed: no memory left\r\n');
    assert.deepEqual(reported, []);
    assert.equal(state.ended, false);
    assert.equal(errors, 1);
  });

  it('hides and reports a failure that is nobody’s mistake', () => {
    for (const failure of [new TypeError('planted'), 'a string']) {
      const { text, reported, state } = run(['get', 'a'], { failure });
      assert.equal(text, '-ERR internal error\r\n');
      assert.deepEqual(reported, [failure]);
      assert.equal(state.ended, false);
    }
  });

  it('ends a connection whose reply broke off in the middle', () => {
    const failure = new Error('planted');
    const broken: Command = {
      name: 'broken',
      summary: '',
      group: 'server',
      arity: 1,
      flags: [],
      run(_request, { reply }) {
        reply.array(2);
        throw failure;
      },
    };
    const commands = new CommandTable([broken]);
    const { text, reported, state } = run(['broken'], { commands });
    assert.equal(text, '*2\r\n');
    assert.equal(state.ended, true);
    assert.deepEqual(reported, [failure]);
  });

  it('maps the codes of errors', () => {
    const expected: [ErrorCode, string][] = [
      ['SW_NOT_INTEGER', 'ERR value is not an integer or out of range'],
      ['SW_OVERFLOW', 'ERR increment or decrement would overflow'],
      ['SW_POOL_FULL', 'OOM command not allowed: why'],
      ['SW_INVALID_KEY', 'ERR SW_INVALID_KEY why'],
      ['SW_CONTENTION', 'ERR SW_CONTENTION why'],
    ];
    for (const [code, text] of expected) {
      assert.equal(errorText(new StepwellError(code, 'why')), text);
    }
    assert.equal(errorText(null), 'ERR internal error');
  });
});

describe('the command table', () => {
  it('finds names in any case, and no others', () => {
    const find = (name: string) => COMMANDS.find(Buffer.from(name))?.name;
    for (const { name } of COMMANDS.all) {
      assert.equal(find(name), name);
      assert.equal(find(name.toUpperCase()), name);
      assert.equal(find(name[0].toUpperCase() + name.slice(1)), name);
    }
    // The last two differ from names by the bit that tells the cases of letters apart.
    const others = ['', 'ge', 'gett', 'constructor', '__proto__', 'x'.repeat(10_000)];
    for (const name of [...others, 'sw\x0erange', 'BITFIELD\x7fRO']) {
      assert.equal(find(name), undefined, name);
    }
  });

  it('is in order and complete', () => {
    const names = COMMANDS.all.map(({ name }) => name);
    assert.deepEqual(names, names.toSorted());
    for (const { name, summary, arity, subcommands = [] } of COMMANDS.all) {
      assert.match(summary, /^[A-Z][^\r\n]*\.$/, name);
      assert.notEqual(arity, 0, name);
      for (const subcommand of subcommands) assert.ok(subcommand.name.startsWith(`${name}|`));
    }
  });
});

import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { describe, it } from 'node:test';
import { StepwellError } from '../../errors.ts';
import { defineCommand } from '../command.ts';
import { interruptSignal } from '../context.ts';
import { InputError, Interrupted, OutputClosed, UsageError } from '../failures.ts';
import { run } from '../run.ts';
import { Output, type Sink } from '../terminal/output.ts';
import { fakeContext, Recorder, stepwell } from './support/terminal.ts';

async function failWith(error: unknown, words: string[] = ['fail'], env: NodeJS.ProcessEnv = {}) {
  const command = defineCommand({
    name: 'fail',
    arguments: '',
    summary: '',
    options: {},
    examples: [],
    run: () => Promise.reject(error),
  });
  const stderr = new Recorder();
  const context = { ...fakeContext({ env }), stderr: new Output(stderr) };
  return {
    code: await run(words, context, { name: 'stepwell', commands: [command], examples: [] }),
    err: stderr.text,
  };
}

describe('exit codes', () => {
  it('tell the kinds of failure apart, with one clear line', async () => {
    const missing = Object.assign(new Error("ENOENT: no such file or directory, open 'x'"), {
      code: 'ENOENT',
      errno: -2,
    });
    const cases: [unknown, number, string][] = [
      [new UsageError('no'), 2, 'stepwell: no\nsee: npx stepwell fail --help\n'],
      [new StepwellError('SW_POOL_FULL', 'full'), 3, 'stepwell: full (SW_POOL_FULL)\n'],
      [new StepwellError('SW_INVALID_URL', 'bad'), 2, 'stepwell: bad (SW_INVALID_URL)\n'],
      [new StepwellError('SW_INVALID_ARGUMENT', 'x'), 2, 'stepwell: x (SW_INVALID_ARGUMENT)\n'],
      [Object.assign(new Error('x'), { code: 'SW_CLOSED' }), 3, 'stepwell: x (SW_CLOSED)\n'],
      [new InputError('line 3'), 3, 'stepwell: line 3\n'],
      [missing, 3, "stepwell: no such file or directory, open 'x' (ENOENT)\n"],
      [new OutputClosed(), 0, ''],
      [new Interrupted('interrupted'), 130, 'stepwell: interrupted\n'],
    ];
    for (const [error, code, err] of cases) {
      assert.deepEqual(await failWith(error), { code, err });
    }
  });

  it('report defects as such, and show the stack on demand only', async () => {
    const quiet = await failWith(new TypeError('x is not a function'));
    assert.equal(quiet.code, 70);
    assert.match(quiet.err, /^stepwell: internal error: TypeError: x is not a function\n/);
    assert.match(quiet.err, /--debug/);
    assert.doesNotMatch(quiet.err, /\n {4}at /);
    const defect = new TypeError('x');
    assert.match((await failWith(defect, ['fail', '--debug'])).err, /\n {4}at /);
    assert.match((await failWith(defect, ['fail'], { STEPWELL_DEBUG: '1' })).err, /\n {4}at /);
    assert.doesNotMatch((await failWith(defect, ['fail'], { STEPWELL_DEBUG: '0' })).err, / at /);
    assert.equal((await failWith('a thrown string')).code, 70);
  });

  it('let no message drive the terminal', async () => {
    const { err } = await failWith(new StepwellError('SW_POOL_FOREIGN', 'name \u001b[2J'));
    assert.ok(!err.includes('\u001b'));
  });

  it('help with the words of a command line', async () => {
    const unknown = await stepwell(['gett', 'shm:x', 'k']);
    assert.equal(unknown.code, 2);
    assert.match(unknown.err, /did you mean get\?/);
    const bare = await stepwell(['get']);
    assert.equal(bare.code, 2);
    assert.match(bare.err, /needs <url>\nfor example: npx stepwell get shm:demo greeting\n/);
    assert.match(bare.err, /see: npx stepwell get --help/);
    assert.equal((await stepwell(['--version'])).out, 'stepwell 1.2.3\n');
  });
});

describe('output', () => {
  it('waits while the sink is full', async () => {
    const order: string[] = [];
    let drain = () => {};
    const sink: Sink = {
      write: (chunk) => {
        order.push(`write ${chunk}`);
        return false;
      },
      on: () => {},
      once: (_event, listener) => {
        drain = listener;
      },
      off: () => {},
    };
    const output = new Output(sink);
    const first = output.write('a').then(() => order.push('a done'));
    await new Promise(setImmediate);
    order.push('drain');
    drain();
    await first;
    assert.deepEqual(order, ['write a', 'drain', 'a done']);
  });

  it('ends quietly when the reader goes away, also while it waits', async () => {
    const gone = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
    const recorder = new Recorder();
    const output = new Output(recorder);
    recorder.fail(gone);
    await assert.rejects(output.write('x'), OutputClosed);
    output.writeNow('also nothing');
    assert.equal(recorder.text, '');

    const full = new (class extends Recorder {
      override write(): boolean {
        return false;
      }
      override once(): void {}
    })();
    const waiting = new Output(full).write('x');
    full.fail(gone);
    await assert.rejects(waiting, OutputClosed);
  });

  it('passes other errors on', async () => {
    const recorder = new Recorder();
    const output = new Output(recorder);
    recorder.fail(Object.assign(new Error('ENOSPC'), { code: 'ENOSPC' }));
    await assert.rejects(output.write('x'), /ENOSPC/);
  });
});

describe('Ctrl-C', () => {
  const begin = () => {
    const process = new EventEmitter();
    const clock = { now: 1000 };
    const exits: number[] = [];
    const now = () => clock.now;
    const signal = interruptSignal({ process, now, exit: (code) => exits.push(code) });
    return { process, clock, exits, signal };
  };

  it('aborts at first and exits at once the second time', () => {
    const { process, clock, exits, signal } = begin();
    assert.equal(signal.aborted, false);
    process.emit('SIGINT');
    assert.equal(signal.aborted, true);
    assert.deepEqual(exits, []);
    clock.now += 1000;
    process.emit('SIGINT');
    process.emit('SIGTERM');
    assert.deepEqual(exits, [130, 143]);
  });

  it('takes the echo that npm sends for the same key press', () => {
    const { process, clock, exits } = begin();
    process.emit('SIGINT');
    clock.now += 20;
    process.emit('SIGINT');
    assert.deepEqual(exits, []);
  });
});

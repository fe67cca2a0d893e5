import { defineCommand } from '../command.ts';
import { throwIfInterrupted } from '../context.ts';
import { EXIT } from '../failures.ts';
import { parseCount } from '../sizes.ts';

const ROUNDS = 300_000;

export const selftest = defineCommand({
  name: 'selftest',
  arguments: '[folder]',
  summary: 'Try whether this processor keeps the order that pools rely on',
  details:
    '  Two threads run litmus tests against each other. Each has a control that must show the\n' +
    '  forbidden outcome; where it does not, the verdict is inconclusive: run it again on an\n' +
    '  idle machine. Without a folder it tests memory that threads share, with one (/dev/shm)\n' +
    '  files that processes map. Support of arm64 is experimental: please run it there.',
  options: {
    rounds: { value: 'N', read: parseCount(1000, 1e8), about: `Of each test (default: ${ROUNDS})` },
    json: { about: 'Print one JSON object a line' },
  },
  examples: ['selftest', 'selftest /dev/shm'],
  async run(context, [folder], { rounds = ROUNDS, json }) {
    const library = await import('../../fabrics/shared/selftest/selftest.ts');
    let violated = false;
    for await (const result of library.selftest({ folder, rounds })) {
      throwIfInterrupted(context.signal, 'interrupted');
      const { test, verdict, violations, control } = result;
      const text = `${verdict.padEnd(13)} ${test} (seen ${violations}, control ${control})`;
      await context.stdout.line(json ? JSON.stringify(result) : text);
      violated ||= verdict === 'violated';
    }
    return violated ? EXIT.negative : EXIT.ok;
  },
});

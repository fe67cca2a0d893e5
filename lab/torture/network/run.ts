/** Kills, pauses and partitions memory nodes, index servers and clients until the time is up. */
import { INDEX_NAMES, kindNamed } from '../../../src/indexes/kinds.ts';
import type { IndexName } from '../../../src/store/api.ts';
import { parseOptions } from '../../support/options.ts';
import { Campaign } from './campaign.ts';
import { loopbackHosts, makeHosts } from './hosts.ts';

const SPEC = {
  minutes: { kind: 'integer', fallback: 2, help: 'begin no round after this long' },
  rounds: { kind: 'integer', fallback: 0, help: 'end after this many rounds; 0 for no limit' },
  seed: { kind: 'integer', fallback: 0, help: 'seed of the first round; 0 for a random one' },
  index: {
    kind: 'text',
    fallback: 'race',
    help: INDEX_NAMES.join(', '),
  },
  nodes: { kind: 'integer', fallback: 2, minimum: 1, help: 'memory nodes' },
  clients: { kind: 'integer', fallback: 3, minimum: 1, help: 'client processes' },
  faults: { kind: 'integer', fallback: 8, minimum: 0, help: 'faults in each round' },
  keys: { kind: 'integer', fallback: 24, minimum: 1, help: 'keys that all clients share' },
  canary: { kind: 'flag', help: 'make one client lie: the run must fail' },
  ucx: { kind: 'flag', help: 'issue verbs through UCX, over TCP' },
  loopback: { kind: 'flag', help: 'use no network namespaces, and so no partitions' },
} as const;

export async function main(argv: string[]): Promise<void> {
  const command = 'stepwell-lab torture-network';
  const options = parseOptions(command, SPEC, argv);
  const end = performance.now() + 60_000 * options.minutes;
  let seed = options.seed || 1 + Math.floor(Math.random() * 2 ** 30);
  for (let round = 1; performance.now() < end; round++, seed++) {
    const hosts = options.loopback ? loopbackHosts('--loopback') : makeHosts();
    if (hosts.uncuttable !== undefined) console.log(`no partitions: ${hosts.uncuttable}`);
    const index = kindNamed(options.index).manifest.name as IndexName;
    const { nodes, clients, faults, keys, canary, ucx } = options;
    const interrupted = () => {
      hosts.close();
      process.exit(130);
    };
    process.once('SIGINT', interrupted).once('SIGTERM', interrupted);
    try {
      console.log(`seed ${seed}, ${index}`);
      const say = (line: string) => console.log(line);
      const sizes = { nodes, clients, faults, keys, lanes: 4, pauseMs: 30, canary, ucx };
      const report = await Campaign.run(hosts, { seed, index, ...sizes, say });
      const { calls, open, errors, moves, wrong } = report;
      console.log(`  ${calls} calls, ${open} without an answer, ${JSON.stringify(errors)}`);
      if (moves) console.log(`  nodes removed and added: ${JSON.stringify(moves)}`);
      if (wrong.length > 0) throw new Error(wrong.join('\n'));
    } catch (error) {
      const again = argv.filter(
        (word, i) => !/^--(seed|rounds)/.test(word) && !/^--(seed|rounds)$/.test(argv[i - 1] ?? ''),
      );
      console.error(`FAILED. To repeat it (timing differs from run to run):`);
      console.error(`  ${command} ${again.join(' ')} --seed ${seed} --rounds 1`);
      throw error;
    } finally {
      process.off('SIGINT', interrupted).off('SIGTERM', interrupted);
      hosts.close();
    }
    if (round === options.rounds) break;
  }
}

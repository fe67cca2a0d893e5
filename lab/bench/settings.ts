import { type Options, parseOptions, UsageError } from '../support/options.ts';
import { PEERS, type PeerName } from './protocol.ts';

const SPEC = {
  records: { kind: 'integer', fallback: 1_000_000, minimum: 100, help: 'records of a table' },
  rounds: { kind: 'integer', fallback: 5, minimum: 1, help: 'rounds that count' },
  operations: {
    kind: 'integer',
    fallback: 500_000,
    minimum: 100,
    help: 'gets of a round and peer; slower operations take a share of it',
  },
  large: { kind: 'integer', fallback: 20_000_000, minimum: 100, help: 'records of the large part' },
  'no-large': { kind: 'flag', help: 'leave the large part out' },
  only: { kind: 'text', fallback: '', help: `some of ${PEERS.join(',')}` },
  url: { kind: 'text', fallback: '', help: 'pool to use; default shm:bench-<pid>' },
  'lmdb-no-sync': { kind: 'flag', help: 'run lmdb with noSync, which is not its default' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
  seed: { kind: 'integer', fallback: 1, help: 'seed of the request sequences' },
  quick: { kind: 'flag', help: 'tiny sizes, to see that everything runs' },
} as const;

export interface BenchSettings {
  records: number;
  rounds: number;
  operations: number;
  /** Records of the large part; 0 leaves it out. */
  large: number;
  peers: PeerName[];
  url: string;
  lmdbNoSync: boolean;
  json: string;
  seed: number;
}

export function readSettings(argv: readonly string[], pid: number): BenchSettings {
  const options = parseOptions('stepwell-lab bench', SPEC, argv);
  const given = (name: string) => argv.some((a) => a === `--${name}` || a.startsWith(`--${name}=`));
  const size = (name: 'records' | 'rounds' | 'operations' | 'large', quick: number) =>
    options.quick && !given(name) ? quick : options[name];
  return {
    records: size('records', 20_000),
    rounds: size('rounds', 2),
    operations: size('operations', 20_000),
    large: options['no-large'] ? 0 : size('large', 100_000),
    peers: readPeers(options),
    url: options.url === '' ? `shm:bench-${pid}` : options.url,
    lmdbNoSync: options['lmdb-no-sync'],
    json: options.json,
    seed: options.seed,
  };
}

function readPeers(options: Options<typeof SPEC>): PeerName[] {
  if (options.only === '') return [...PEERS];
  const names = options.only.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !PEERS.includes(name as PeerName));
  if (unknown !== undefined) {
    throw new UsageError(`--only knows ${PEERS.join(', ')}, not '${unknown}'`);
  }
  // The order of the peers within a round is fixed, whatever order they were asked for in.
  return PEERS.filter((peer) => names.includes(peer));
}

/** redis-benchmark against gateways and redis-server, alternating, in one run. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { promisify } from 'node:util';
import { startRedisServer } from '../bench/redis-server.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMachine } from '../support/machine.ts';
import { parseOptions } from '../support/options.ts';
import { median } from '../support/statistics.ts';
import { figure, grouped, table } from '../support/text.ts';
import { processorSeconds, startGateway, startGatewayOfNode } from './gateway-process.ts';

const SPEC = {
  requests: { kind: 'integer', fallback: 200_000, minimum: 1000, help: 'requests of a run' },
  rounds: {
    kind: 'integer',
    fallback: 5,
    minimum: 1,
    help: 'runs of each case; the median counts',
  },
  clients: { kind: 'integer', fallback: 50, minimum: 1, help: 'connections' },
  tests: { kind: 'text', fallback: 'set,get,incr', help: 'commands of redis-benchmark' },
  pipelines: { kind: 'text', fallback: '1,16', help: 'requests in flight on each connection' },
  peers: {
    kind: 'text',
    fallback: 'mapped,redis',
    help: 'of mapped, node (gateways in front of a mapped pool, a memory node) and redis',
  },
  index: { kind: 'text', fallback: '', help: 'index of the stores, if not the one of serve' },
  json: { kind: 'text', fallback: '', help: 'file to write every figure to' },
} as const;

const execute = promisify(execFile);

interface Peer {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** The memory node behind it, if it has one. */
  readonly nodePid?: number;
}

interface Run {
  readonly peer: string;
  readonly test: string;
  readonly pipeline: number;
  readonly perSecond: number;
  /** Processor time of the server per request. */
  readonly processorMicroseconds: number;
  /** The same of its memory node; 0 without one. */
  readonly nodeMicroseconds: number;
}

export async function main(argv: string[]): Promise<void> {
  const options = parseOptions('stepwell-lab bench-gateway', SPEC, argv);
  const cleanup = new Cleanup();
  const loadBefore = loadavg()[0];
  try {
    const peers: Peer[] = [];
    for (const name of options.peers.split(',')) {
      const started = await startPeer(name, options.index);
      cleanup.add(() => started.stop());
      peers.push({ name, ...started });
    }
    const runs: Run[] = [];
    for (let round = 0; round < options.rounds; round++) {
      for (const pipeline of options.pipelines.split(',').map(Number)) {
        for (const test of options.tests.split(',')) {
          // Reverse the order every round, because later peers find other contents in the caches.
          const order = round % 2 === 0 ? peers : peers.toReversed();
          for (const peer of order) runs.push(await measure(peer, test, pipeline, options));
        }
      }
    }
    console.log(report(runs, options.peers.split(',')));
    console.log(
      `\nload average: ${loadBefore.toFixed(1)} before, ${loadavg()[0].toFixed(1)} after`,
    );
    if (options.json !== '') {
      const whole = { options, machine: describeMachine(), loadBefore, runs };
      writeFileSync(options.json, `${JSON.stringify(whole, null, 2)}\n`);
    }
  } finally {
    await cleanup.run();
  }
}

function startPeer(
  name: string,
  index: string,
): Promise<Omit<Peer, 'name'> & { stop(): Promise<void> }> {
  const pool = `stepwell-bench-gateway-${process.pid}`;
  if (name === 'redis') return startRedisServer();
  if (name === 'node') return startGatewayOfNode(index);
  if (name === 'mapped') return startGateway(`shm:${pool}`, index);
  throw new RangeError(`--peers has ${name}, which is none of mapped, node and redis`);
}

async function measure(
  peer: Peer,
  test: string,
  pipeline: number,
  { requests, clients }: { requests: number; clients: number },
): Promise<Run> {
  const words = `-h 127.0.0.1 -p ${peer.port} -n ${requests} -c ${clients} -P ${pipeline}`;
  const used = () => [peer.pid, peer.nodePid].map((pid) => (pid ? processorSeconds(pid) : 0));
  const before = used();
  const more = ['-t', test, '-r', '100000', '--csv'];
  const { stdout } = await execute('redis-benchmark', [...words.split(' '), ...more]);
  const [microseconds, nodeMicroseconds] = used().map(
    (seconds, i) => ((seconds - before[i]) * 1e6) / requests,
  );
  const [, perSecond] = /\n"[^"]*","([0-9.]+)"/.exec(stdout) ?? [];
  return {
    peer: peer.name,
    test,
    pipeline,
    perSecond: Number(perSecond),
    processorMicroseconds: microseconds,
    nodeMicroseconds,
  };
}

/** Ratios are to the first peer. */
function report(runs: readonly Run[], peers: readonly string[]): string {
  const cases = new Map(runs.map((run) => [`${run.test} -P ${run.pipeline}`, run]));
  const nodes = peers.filter((peer) => peer === 'node');
  const rows = [...cases].map(([name, { test, pipeline }]) => {
    const of = (peer: string, value: (run: Run) => number) =>
      median(
        runs
          .filter((run) => run.peer === peer && run.test === test && run.pipeline === pipeline)
          .map(value),
      );
    const rates = peers.map((peer) => of(peer, ({ perSecond }) => perSecond));
    const costs = peers.map((peer) => of(peer, (run) => run.processorMicroseconds));
    const ratios = rates.slice(1).map((rate) => figure(rate / rates[0]));
    const ofNodes = nodes.map((peer) => of(peer, ({ nodeMicroseconds }) => nodeMicroseconds));
    return [name, ...rates.map(grouped), ...ratios, ...[...costs, ...ofNodes].map(figure)];
  });
  const ratios = peers.slice(1).map((peer) => `${peer} to ${peers[0]}`);
  const [rates, costs] = ['/s', ' µs cpu'].map((unit) => peers.map((peer) => `${peer}${unit}`));
  const ofNodes = nodes.map(() => 'memory node µs cpu');
  return table(['', ...rates, ...ratios, ...costs, ...ofNodes], rows);
}

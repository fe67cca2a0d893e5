import { type ChildProcess, spawn } from 'node:child_process';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { type Scope, temporaryDirectory } from '../pools.ts';

const ANSWERS_WITHIN_MS = 60_000;

/** One real etcd with a directory of its own, on ports of its own. */
export class RealEtcd {
  readonly host: string;
  readonly #arguments: string[];
  #child: ChildProcess | undefined;

  private constructor(directory: string, port: number, peerPort: number) {
    this.host = `127.0.0.1:${port}`;
    const url = `http://${this.host}`;
    const peers = `http://127.0.0.1:${peerPort}`;
    this.#arguments = [
      '--data-dir',
      directory,
      '--name',
      'one',
      '--log-outputs',
      'stderr',
      '--listen-client-urls',
      url,
      '--advertise-client-urls',
      url,
      '--listen-peer-urls',
      peers,
      '--initial-advertise-peer-urls',
      peers,
      '--initial-cluster',
      `one=${peers}`,
    ];
  }

  static async start(scope: Scope): Promise<RealEtcd> {
    const directory = temporaryDirectory(scope);
    const etcd = new RealEtcd(directory, await freePort(), await freePort());
    scope.after(() => etcd.kill());
    await etcd.start();
    return etcd;
  }

  /** Starts etcd, or restarts it with its data. */
  async start(): Promise<void> {
    this.#child = spawn('etcd', this.#arguments, { stdio: 'ignore' });
    const until = Date.now() + ANSWERS_WITHIN_MS;
    while (!(await this.#isHealthy())) {
      if (Date.now() > until) throw new Error('etcd does not answer');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  async #isHealthy(): Promise<boolean> {
    try {
      return (await fetch(`http://${this.host}/health`)).ok;
    } catch {
      return false;
    }
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';

const PREFIX = '10.77.0.';
/** A link-layer address that no host has: frames sent to it are lost, as behind a dead switch. */
const NOWHERE = '02:00:00:00:00:99';

/** Hosts that processes run on. Each has an address; with network namespaces it can be cut off. */
export interface Hosts {
  /** Why hosts cannot be cut off; undefined if they can. */
  readonly uncuttable: string | undefined;
  add(name: string): string;
  spawn(host: string, words: readonly string[], options: SpawnOptions): ChildProcess;
  /** Silently drops all traffic of the host, in both directions. */
  cut(host: string): void;
  heal(host: string): void;
  /** Drops what `from` sends to `to`, and nothing else. */
  cutBetween(from: string, to: string): void;
  healBetween(from: string, to: string): void;
  close(): void;
}

/** All hosts on loopback. */
export function loopbackHosts(uncuttable: string): Hosts {
  const cannot = () => {
    throw new Error(uncuttable);
  };
  return {
    uncuttable,
    add: () => '127.0.0.1',
    spawn: (_host, [command, ...words], options) => spawn(command, words, options),
    cut: cannot,
    heal: cannot,
    cutBetween: cannot,
    healBetween: cannot,
    close() {},
  };
}

/** One network namespace per host, all on one bridge. Falls back to loopback, with the reason. */
export function makeHosts(): Hosts {
  const tag = `sw${process.pid.toString(36)}`;
  const tried = spawnSync('ip', ['netns', 'add', `${tag}-switch`], { encoding: 'utf8' });
  if (tried.error) return loopbackHosts(`no ip command: ${tried.error.message}`);
  if (tried.status !== 0) return loopbackHosts(`no network namespaces: ${tried.stderr.trim()}`);
  const hosts = new NamespaceHosts(tag);
  try {
    hosts.connect();
    return hosts;
  } catch (error) {
    hosts.close();
    return loopbackHosts(`no bridged namespaces: ${(error as Error).message}`);
  }
}

function ip(...words: string[]): void {
  const { status, stderr } = spawnSync('ip', words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${stderr.trim()}`);
}

/** Kills a process in a namespace that is about to be deleted. */
function endNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has already exited.
  }
}

class NamespaceHosts implements Hosts {
  readonly uncuttable = undefined;
  readonly #tag: string;
  readonly #switch: string;
  readonly #hosts: string[] = [];

  constructor(tag: string) {
    this.#tag = tag;
    this.#switch = `${tag}-switch`;
  }

  connect(): void {
    ip('-n', this.#switch, 'link', 'add', 'bridge', 'type', 'bridge');
    ip('-n', this.#switch, 'link', 'set', 'bridge', 'up');
  }

  #namespace(host: string): string {
    return `${this.#tag}-${host}`;
  }

  #port(host: string): string {
    return `port${this.#hosts.indexOf(host)}`;
  }

  #address(host: string): string {
    return `${PREFIX}${1 + this.#hosts.indexOf(host)}`;
  }

  add(host: string): string {
    const namespace = this.#namespace(host);
    this.#hosts.push(host);
    const port = this.#port(host);
    ip('netns', 'add', namespace);
    const peer = ['type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace];
    ip('-n', this.#switch, 'link', 'add', port, ...peer);
    ip('-n', this.#switch, 'link', 'set', port, 'master', 'bridge', 'up');
    ip('-n', namespace, 'address', 'add', `${this.#address(host)}/24`, 'dev', 'eth0');
    ip('-n', namespace, 'link', 'set', 'eth0', 'up');
    ip('-n', namespace, 'link', 'set', 'lo', 'up');
    return this.#address(host);
  }

  spawn(host: string, words: readonly string[], options: SpawnOptions): ChildProcess {
    // `ip netns exec` becomes the command: signals and channels reach it directly.
    return spawn('ip', ['netns', 'exec', this.#namespace(host), ...words], options);
  }

  cut(host: string): void {
    ip('-n', this.#switch, 'link', 'set', this.#port(host), 'nomaster');
  }

  heal(host: string): void {
    ip('-n', this.#switch, 'link', 'set', this.#port(host), 'master', 'bridge');
  }

  cutBetween(from: string, to: string): void {
    const entry = [this.#address(to), 'lladdr', NOWHERE, 'dev', 'eth0', 'nud', 'permanent'];
    ip('-n', this.#namespace(from), 'neigh', 'replace', ...entry);
  }

  healBetween(from: string, to: string): void {
    ip('-n', this.#namespace(from), 'neigh', 'delete', this.#address(to), 'dev', 'eth0');
  }

  close(): void {
    for (const host of ['switch', ...this.#hosts]) {
      const namespace = this.#namespace(host);
      const { stdout } = spawnSync('ip', ['netns', 'pids', namespace], { encoding: 'utf8' });
      for (const pid of (stdout ?? '').split('\n').filter(Boolean)) endNow(Number(pid));
      spawnSync('ip', ['netns', 'delete', namespace]);
    }
  }
}

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { IndexName, OpenOptions } from '../../../src/store/api.ts';
import { subjectNamed } from '../../verification/subjects/index.ts';
import { Prng } from '../../workloads/index.ts';
import { judge, readCalls, type StoreCall } from './calls.ts';
import type { Hosts } from './hosts.ts';
import { Mover, type MoverReport } from './mover.ts';
import { ClientProcess, HostProcess } from './processes.ts';

const PORT = 7471;
const SECRET = 'what all hosts of a campaign know';
const NODE_BYTES = '32m';
/** Shorter than every fault, so that clients are revoked and stop waiting for nodes. */
const LEASE_SECONDS = 0.6;
const TIMEOUT_MS = 500;
const FAULT_MS = 900;
/** A client without progress for this long after a fault is stuck. */
const PATIENCE_MS = 90_000;
const CALLS_BETWEEN_FAULTS = 12;

export interface CampaignSettings {
  seed: number;
  index: IndexName;
  nodes: number;
  clients: number;
  faults: number;
  keys: number;
  lanes: number;
  pauseMs: number;
  /** How many answers each client gets between two faults. Default: 12. */
  calls?: number;
  /** Sends verbs through UCX over TCP instead of the TCP connections. */
  ucx?: boolean;
  /** One client lies, so the run must fail. */
  canary?: boolean;
  say(line: string): void;
}

interface CampaignReport {
  faults: string[];
  calls: number;
  /** Calls that may or may not have happened. */
  open: number;
  errors: Record<string, number>;
  /** Present if parts of the index moved between nodes during the run. */
  moves?: MoverReport;
  /** Histories that are not linearizable. */
  wrong: string[];
}

interface Fault {
  name: string;
  inflict(): Promise<void> | void;
  end(): Promise<void> | void;
}

/** Memory nodes, index servers and clients on separate hosts, and faults of all of them. */
export class Campaign {
  readonly #settings: CampaignSettings;
  readonly #hosts: Hosts;
  readonly #prng: Prng;
  readonly #folder = mkdtempSync(join(tmpdir(), 'stepwell-network-'));
  readonly #env = { STEPWELL_SECRET: SECRET, NO_COLOR: '1' };
  readonly #nodes: HostProcess[] = [];
  readonly #servers: HostProcess[] = [];
  readonly #clients: ClientProcess[] = [];
  /** Clients that were killed; their logs count, too. */
  readonly #gone: ClientProcess[] = [];
  #mover: Mover | undefined;
  #numbers = 0;

  constructor(hosts: Hosts, settings: CampaignSettings) {
    this.#hosts = hosts;
    this.#settings = settings;
    this.#prng = Prng.fromSeed(settings.seed);
  }

  static async run(hosts: Hosts, settings: CampaignSettings): Promise<CampaignReport> {
    const campaign = new Campaign(hosts, settings);
    try {
      return await campaign.#run();
    } finally {
      await campaign.#close();
    }
  }

  async #run(): Promise<CampaignReport> {
    const { clients, faults, say } = this.#settings;
    const url = await this.#startNodes();
    const hosts = Array.from({ length: clients }, (_, i) => `client${i}`);
    for (const host of hosts) {
      this.#hosts.add(host);
      this.#clients.push(await this.#startClient(host, url));
    }
    await this.#startServers(url);
    const inflicted: string[] = [];
    await this.#progress();
    this.#startMover(url);
    for (let i = 0; i < faults; i++) {
      const fault = this.#draw(url);
      say(`  ${fault.name}`);
      inflicted.push(fault.name);
      await fault.inflict();
      await rest(FAULT_MS + this.#prng.below(FAULT_MS));
      await fault.end();
      await this.#progress();
    }
    say('  all clients end');
    await Promise.all(this.#clients.map((client) => client.finish()));
    say('  an auditor reads');
    const auditor = await this.#audit(url);
    const moves = await this.#mover?.finish();
    return { ...this.#report(inflicted, auditor), ...(moves && { moves }) };
  }

  /** If the index can migrate parts, moves them between memory nodes during the run. */
  #startMover(url: string): void {
    const { index, nodes } = this.#settings;
    if (!subjectNamed(index).migrates || nodes < 2) return;
    this.#hosts.add('mover');
    const task = { host: 'mover', url: `${url}/default`, nodes };
    this.#mover = new Mover(this.#hosts, task, this.#env, this.#prng.fork(1));
    this.#mover.start();
  }

  async #startNodes(): Promise<string> {
    const { nodes, ucx } = this.#settings;
    const loopback = this.#hosts.uncuttable !== undefined;
    const places: string[] = [];
    for (let i = 0; i < nodes; i++) {
      const host = `node${i}`;
      const listen = `${this.#hosts.add(host)}:${loopback ? await freePort() : PORT}`;
      const file = join(this.#folder, host);
      const words = ['--size', NODE_BYTES, '--file', file, '--lease', String(LEASE_SECONDS)];
      const device = loopback ? 'lo' : 'eth0';
      const fabric = ['--fabric', 'ucx', '--transports', 'tcp', '--device', device];
      const all = ['memory-node', '--listen', listen, ...words, ...(ucx ? fabric : [])];
      const node = HostProcess.program(this.#hosts, host, all, this.#env);
      await node.start();
      this.#nodes.push(node);
      places.push(listen);
    }
    return `${ucx ? 'ucx' : 'tcp'}://${places.join(',')}`;
  }

  async #startServers(url: string): Promise<void> {
    if (subjectNamed(this.#settings.index).servers === undefined) return;
    for (const role of ['hash', 'skiplist']) {
      this.#hosts.add(role);
      const words = ['index-server', url, '--role', role];
      const server = HostProcess.program(this.#hosts, role, words, this.#env);
      await server.start();
      this.#servers.push(server);
    }
  }

  get #options(): OpenOptions {
    const { index } = this.#settings;
    return { index, maxClients: 64, timeoutMs: TIMEOUT_MS, client: 'campaign' };
  }

  async #startClient(host: string, url: string): Promise<ClientProcess> {
    const { keys, lanes, pauseMs, seed, canary } = this.#settings;
    const number = ++this.#numbers;
    const lies = canary === true && number === 1;
    const log = join(this.#folder, `calls-${number}`);
    const settings = { keys, lanes, pauseMs, number, log, seed: seed * 1000 + number, lies };
    const task = { url, options: this.#options, ...settings };
    const client = new ClientProcess(this.#hosts, host, task, this.#env);
    await client.start();
    return client;
  }

  async #progress(): Promise<void> {
    const { calls = CALLS_BETWEEN_FAULTS } = this.#settings;
    const one = (client: ClientProcess) => client.progress(calls, PATIENCE_MS);
    await Promise.all(this.#clients.map(one));
  }

  #draw(url: string): Fault {
    const pick = <T>(all: readonly T[]): T => all[this.#prng.below(all.length)];
    const anyClient = () => this.#prng.below(this.#clients.length);
    const kinds: (() => Fault)[] = [
      () => stop(pick(this.#nodes)),
      () => kill(pick(this.#nodes)),
      () => stop(this.#clients[anyClient()]),
      () => this.#replaced(anyClient(), url),
    ];
    if (this.#servers.length > 0) {
      kinds.push(
        () => stop(pick(this.#servers)),
        () => kill(pick(this.#servers)),
      );
    }
    if (this.#hosts.uncuttable === undefined) {
      kinds.push(
        () => this.#cut(pick(this.#nodes).host),
        () => this.#cut(pick(this.#clients).host),
        () => this.#cutBetween(pick(this.#clients).host, pick(this.#nodes).host),
      );
      if (this.#servers.length > 0) kinds.push(() => this.#cut(pick(this.#servers).host));
    }
    return pick(kinds)();
  }

  #cut(host: string): Fault {
    return {
      name: `${host} is cut off`,
      inflict: () => this.#hosts.cut(host),
      end: () => this.#hosts.heal(host),
    };
  }

  #cutBetween(from: string, to: string): Fault {
    return {
      name: `what ${from} sends to ${to} is lost`,
      inflict: () => this.#hosts.cutBetween(from, to),
      end: () => this.#hosts.healBetween(from, to),
    };
  }

  /** Kills a client, and then starts another on its host. */
  #replaced(i: number, url: string): Fault {
    const client = this.#clients[i];
    return {
      name: `${client.host} is killed`,
      inflict: () => client.end('SIGKILL'),
      end: async () => {
        this.#gone.push(client);
        this.#clients[i] = await this.#startClient(client.host, url);
      },
    };
  }

  /** A new client reads the keys. */
  async #audit(url: string): Promise<ClientProcess> {
    const { clients } = this.#settings;
    const auditor = await this.#startClient(`client${clients - 1}`, url);
    // Enough calls to reach most of the keys.
    await auditor.progress(4 * this.#settings.keys, PATIENCE_MS);
    await auditor.finish();
    return auditor;
  }

  #report(faults: string[], auditor: ClientProcess): CampaignReport {
    const clients = [...this.#clients, ...this.#gone, auditor];
    const calls = clients.flatMap(({ task }) => readCalls(`client ${task.number}`, task.log));
    const errors: Record<string, number> = {};
    for (const client of clients) {
      for (const [code, times] of client.errors) errors[code] = (errors[code] ?? 0) + times;
    }
    const isOpen = ({ responded }: StoreCall) => responded === Number.POSITIVE_INFINITY;
    const open = calls.filter(isOpen).length;
    return { faults, calls: calls.length, open, errors, wrong: judge(calls) };
  }

  async #close(): Promise<void> {
    await this.#mover?.end();
    const all = [...this.#clients, ...this.#gone, ...this.#servers, ...this.#nodes];
    await Promise.all(all.map((process) => process.end('SIGKILL')));
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function stop(process: HostProcess): Fault {
  return {
    name: `${process.host} stands still`,
    inflict: () => process.signal('SIGSTOP'),
    end: () => process.signal('SIGCONT'),
  };
}

function kill(process: HostProcess): Fault {
  return {
    name: `${process.host} is killed and starts again`,
    inflict: () => process.end('SIGKILL'),
    end: () => process.start(),
  };
}

function rest(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

import type { Prng } from '../../workloads/index.ts';
import type { Hosts } from './hosts.ts';
import { HostProcess } from './processes.ts';

/** A command takes some hundred milliseconds; half of them are killed within this time. */
const KILLED_WITHIN_MS = 1500;
const REST_MS = 100;
/** Attempts at the last command, after all faults. */
const TRIES_MAX = 30;
const TRY_AGAIN_MS = 500;

/** The fields of `stepwell nodes --json` that matter here. */
interface NodesReport {
  moved: number;
  nodes: { number: number; placed?: boolean; parts?: number }[];
}

export interface MoverReport {
  /** Commands that succeeded, that were killed, and that failed because of a fault. */
  completed: number;
  killed: number;
  failed: number;
  /** Parts of the index that successful commands moved. */
  moved: number;
}

/**
 * Removes memory nodes from the placement of an index and adds them again, with `stepwell nodes`,
 * while nodes and clients suffer faults. Half of the commands are killed at a random point: the
 * clients and the next command finish the migrations that these leave behind.
 */
export class Mover {
  readonly #hosts: Hosts;
  readonly #host: string;
  readonly #url: string;
  readonly #nodes: number;
  readonly #env: NodeJS.ProcessEnv;
  readonly #prng: Prng;
  readonly #report: MoverReport = { completed: 0, killed: 0, failed: 0, moved: 0 };
  #process: HostProcess | undefined;
  #isRunning = true;
  #loop: Promise<void> | undefined;

  constructor(
    hosts: Hosts,
    { host, url, nodes }: { host: string; url: string; nodes: number },
    env: NodeJS.ProcessEnv,
    prng: Prng,
  ) {
    this.#hosts = hosts;
    this.#host = host;
    this.#url = url;
    this.#nodes = nodes;
    this.#env = env;
    this.#prng = prng;
  }

  start(): void {
    this.#loop = this.#run();
  }

  async #run(): Promise<void> {
    while (this.#isRunning) {
      const node = String(1 + this.#prng.below(this.#nodes));
      await this.#command(['--remove', node], true);
      if (!this.#isRunning) return;
      await this.#command(['--add', node], true);
      await rest(REST_MS);
    }
  }

  /** Undefined if the command was killed or failed: its migrations remain unfinished. */
  async #command(words: readonly string[], mayDie: boolean): Promise<NodesReport | undefined> {
    const all = ['nodes', this.#url, '--json', ...words];
    const process = HostProcess.program(this.#hosts, this.#host, all, this.#env);
    this.#process = process;
    const dies = mayDie && this.#prng.below(2) === 0;
    const after = this.#prng.below(KILLED_WITHIN_MS);
    const timer = dies ? setTimeout(() => process.signal('SIGKILL'), after) : undefined;
    try {
      const report = JSON.parse(await process.output()) as NodesReport;
      this.#report.completed++;
      this.#report.moved += report.moved;
      return report;
    } catch {
      if (process.wasKilled) this.#report.killed++;
      else this.#report.failed++;
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Runs when all faults are over and no client uses the store. A command without a fault must
   * complete what was left half done. Then every part is on a node of the placement, and the index
   * is whole.
   */
  async finish(): Promise<MoverReport> {
    this.#isRunning = false;
    await this.#loop;
    for (let attempt = 0; attempt < TRIES_MAX; attempt++) {
      const report = await this.#command([], false);
      if (report !== undefined) {
        refuseMisplaced(report);
        await this.#check();
        return this.#report;
      }
      await rest(TRY_AGAIN_MS);
    }
    throw new Error(`no command of ${TRIES_MAX} completed the migrations: ${this.#complaints}`);
  }

  async #check(): Promise<void> {
    const words = ['check', this.#url.replace(/\/[^/]*$/, '')];
    await HostProcess.program(this.#hosts, this.#host, words, this.#env).output();
  }

  get #complaints(): string {
    return this.#process?.complaints ?? '';
  }

  /** At the end of a campaign, however it ends. */
  async end(): Promise<void> {
    this.#isRunning = false;
    await this.#process?.end('SIGKILL');
    await this.#loop;
  }
}

function refuseMisplaced({ nodes }: NodesReport): void {
  const misplaced = nodes.filter(({ placed, parts = 0 }) => placed !== true && parts > 0);
  if (misplaced.length === 0) return;
  throw new Error(`parts are on nodes that hold none: ${JSON.stringify(nodes)}`);
}

function rest(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

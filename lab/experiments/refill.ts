/**
 * Checks that a pool keeps its capacity. In each round, client processes fill the pool with new
 * keys and delete all of them in random order. With `--kill`, clients are killed at random and
 * replaced.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { hasCode } from '../../src/errors.ts';
import { INDEX_NAMES, kindNamed } from '../../src/indexes/kinds.ts';
import { Prng } from '../../src/random/prng.ts';
import type { IndexName, Store, Value } from '../../src/store/api.ts';
import { checkSync, createSync, destroySync, openSync } from '../../src/store/open.ts';
import { Cleanup } from '../support/cleanup.ts';
import { describeMemory } from '../support/memory-report.ts';
import { parseOptions } from '../support/options.ts';

const SPEC = {
  index: { kind: 'text', fallback: 'sephash', help: INDEX_NAMES.join(', ') },
  mebibytes: { kind: 'integer', fallback: 32, minimum: 2, help: 'of the pool' },
  bytes: { kind: 'text', fallback: '500', help: 'of values: one size, or several with commas' },
  rounds: { kind: 'integer', fallback: 4, minimum: 1, help: 'of filling and emptying' },
  clients: { kind: 'integer', fallback: 1, minimum: 1, help: 'processes' },
  kill: { kind: 'flag', help: 'kill clients at random, and replace them' },
  memory: { kind: 'flag', help: 'after each round, print what the empty pool uses its memory for' },
  clear: { kind: 'flag', help: 'empty with clear() instead of deletions' },
  seed: { kind: 'integer', fallback: 1, help: 'of the first run' },
  seeds: { kind: 'integer', fallback: 1, minimum: 1, help: 'runs, each with the next seed' },
  minutes: { kind: 'integer', fallback: 10, minimum: 1, help: 'fail after this time' },
} as const;

type Options = ReturnType<typeof parseOptions<typeof SPEC>>;

/** One task of a client's process. */
interface Task {
  url: string;
  seed: number;
  sizes: number[];
  does: 'fill' | 'delete' | 'clear';
}

interface Answer {
  done: number;
  /** Calls that the store refused because the pool was full. */
  refused: number;
}

const BURST = 200;
/** Between two kills, at most. */
const KILL_MS = 150;
const KILLS_PER_PHASE = 4;
/** A client sends this when it starts to work. Killing it earlier would test nothing. */
const WORKING = 'working';

/** Lets the event loop turn, so that this client does not delay the reuse of memory. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

async function perform({ url, seed, sizes, does }: Task): Promise<Answer> {
  const store = openSync(url, { store: 'refill', client: 'refill' });
  process.send?.(WORKING);
  try {
    if (does === 'fill') return await fill(store, seed, sizes);
    if (does === 'delete') return await empty(store, seed);
    store.clear();
    return { done: 0, refused: 0 };
  } catch (error) {
    if (!isFull(error)) throw error;
    return { done: 0, refused: 1 };
  } finally {
    store.close();
  }
}

async function fill(store: Store<Value>, seed: number, sizes: number[]): Promise<Answer> {
  const prng = Prng.fromSeed(seed);
  for (let done = 0; ; done++) {
    try {
      store.set(`${seed} ${done}`, 'v'.repeat(sizes[prng.below(sizes.length)]));
    } catch (error) {
      if (!isFull(error)) throw error;
      return { done, refused: 1 };
    }
    if (done % BURST === 0) await turn();
  }
}

/** Deletes all keys in random order, while other clients delete them too. */
async function empty(store: Store<Value>, seed: number): Promise<Answer> {
  const prng = Prng.fromSeed(seed);
  const keys = [...store.keys()];
  let refused = 0;
  let done = 0;
  for (let left = keys.length; left > 0; left--) {
    const at = prng.below(left);
    const key = keys[at];
    keys[at] = keys[left - 1];
    try {
      if (store.delete(key)) done++;
    } catch (error) {
      if (!isFull(error)) throw error;
      refused++;
    }
    if (left % BURST === 0) await turn();
  }
  return { done, refused };
}

function isFull(error: unknown): boolean {
  return hasCode(error, 'SW_POOL_FULL');
}

/** One run, which prints the capacity of each round. */
class Run {
  readonly #options: Options;
  readonly #url: string;
  readonly #prng: Prng;
  readonly #sizes: number[];
  #kills = 0;

  constructor(options: Options, seed: number) {
    this.#options = options;
    this.#url = `shm:refill-${process.pid}-${seed}`;
    this.#prng = Prng.fromSeed(seed);
    this.#sizes = options.bytes.split(',').map(Number);
  }

  async rounds(cleanup: Cleanup): Promise<void> {
    const { index, mebibytes, rounds, clear } = this.#options;
    const size = mebibytes * 2 ** 20;
    createSync(this.#url, { size, regionSize: size, maxClients: 64 });
    cleanup.add(() => destroySync(this.#url, { force: true }));
    try {
      const kind = kindNamed(index).manifest.name as IndexName;
      openSync(this.#url, { store: 'refill', index: kind, client: 'refill' }).close();
      for (let round = 0; round < rounds; round++) {
        this.#kills = 0;
        const filled = await this.#all('fill');
        const held = this.#size();
        const began = performance.now();
        const emptied = await this.#all(clear ? 'clear' : 'delete');
        const ms = Math.round(performance.now() - began);
        const { problems } = checkSync(this.#url);
        const line = [
          `round ${round}: ${held} records (${filled.refused} clients full)`,
          `emptied in ${ms} ms, ${emptied.refused} refused, ${this.#size()} left`,
          `${this.#kills} kills, ${problems.length} problems`,
        ];
        console.log(line.join('; '));
        for (const problem of problems) console.log(`  ${problem}`);
        if (!this.#options.memory) continue;
        const isLast = round === rounds - 1;
        for (const text of describeMemory(this.#url, 'refill', isLast)) console.log(`  ${text}`);
      }
    } finally {
      await cleanup.run();
    }
  }

  #size(): number {
    const store = openSync(this.#url, { store: 'refill', client: 'refill' });
    try {
      return store.size;
    } finally {
      store.close();
    }
  }

  /** All clients perform the same task; a killed client is replaced. */
  async #all(does: Task['does']): Promise<Answer> {
    const { clients, kill } = this.#options;
    const total: Answer = { done: 0, refused: 0 };
    const running = new Set<ChildProcess>();
    let timer: NodeJS.Timeout | undefined;
    let left = kill ? KILLS_PER_PHASE : 0;
    const killOne = () => {
      timer = setTimeout(killOne, this.#prng.below(KILL_MS));
      if (left === 0 || running.size === 0) return;
      left--;
      this.#kills++;
      [...running][this.#prng.below(running.size)].kill('SIGKILL');
    };
    killOne();
    const one = async () => {
      for (;;) {
        const task = { url: this.#url, seed: this.#prng.next32(), sizes: this.#sizes, does };
        const answer = await ask(task, running);
        if (answer === undefined) continue;
        total.done += answer.done;
        total.refused += answer.refused;
        return;
      }
    };
    await Promise.all(Array.from({ length: clients }, one));
    clearTimeout(timer);
    return total;
  }
}

/**
 * Performs a task in a new process. Undefined if it was killed; `running` has the busy processes.
 */
function ask(task: Task, running: Set<ChildProcess>): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const child = fork(process.argv[1], ['refill'], {
      env: { ...process.env, STEPWELL_REFILL: '1' },
    });
    let answer: Answer | undefined;
    child.on('message', (message) => {
      if (message === WORKING) running.add(child);
      else answer = message as Answer;
    });
    child.on('exit', (code, signal) => {
      running.delete(child);
      if (signal === null && code !== 0) reject(new Error(`a client ended with ${code}`));
      else resolve(answer);
    });
    child.send(task);
  });
}

/** The process of a client: it performs one task. */
async function serveTask(): Promise<void> {
  const [task] = (await once(process, 'message')) as [Task];
  process.send?.(await perform(task));
  process.disconnect();
}

export async function main(argv: string[]): Promise<void> {
  if (process.env.STEPWELL_REFILL) return serveTask();
  const options = parseOptions('stepwell-lab refill', SPEC, argv);
  const tooLong = setTimeout(() => {
    console.error(`not done after ${options.minutes} minutes`);
    process.exit(1);
  }, 60_000 * options.minutes);
  for (let seed = options.seed; seed < options.seed + options.seeds; seed++) {
    console.log(`${options.index}, values of ${options.bytes} bytes, seed ${seed}`);
    await new Run(options, seed).rounds(new Cleanup());
  }
  clearTimeout(tooLong);
}

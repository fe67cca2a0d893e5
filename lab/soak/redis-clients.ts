import { setTimeout } from 'node:timers/promises';
import { Redis } from 'ioredis';

const CLIENTS = 3;
const KEYS = 2000;
const PAUSE_MS = 10;

/** Clients of a gateway that is killed and restarted. Each checks what it reads. */
export class RedisClients {
  commands = 0;
  /** Commands that failed because the gateway was down. */
  lost = 0;
  readonly failures: string[] = [];
  readonly #clients: Redis[];
  readonly #running: Promise<void>[];
  #isOver = false;

  constructor(port: number) {
    this.#clients = Array.from({ length: CLIENTS }, () => {
      const client = new Redis({
        port,
        host: '127.0.0.1',
        retryStrategy: () => 100,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
      });
      client.on('error', () => {});
      return client;
    });
    this.#running = this.#clients.map((client, number) => this.#use(client, number));
  }

  /** Waits until a command has been answered, for a minute at most. */
  async answered(): Promise<void> {
    for (let look = 0; this.commands === 0 && look < 600; look++) await setTimeout(100);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#running);
    for (const client of this.#clients) client.disconnect();
  }

  async #use(client: Redis, number: number): Promise<void> {
    let counted = 0;
    for (let turn = 0; !this.#isOver; turn++) {
      const key = `redis:${number}:${turn % KEYS}`;
      try {
        counted = await this.#turn(client, key, number, counted);
      } catch {
        this.lost++;
        await setTimeout(100);
      }
      await setTimeout(PAUSE_MS);
    }
  }

  /** Runs and checks a few commands; returns the new value of the client's own counter. */
  async #turn(client: Redis, key: string, number: number, counted: number): Promise<number> {
    const value = `${key}|${'y'.repeat(100)}`;
    await client.set(key, value, 'EX', 5);
    const [read, count] = await Promise.all([client.get(key), client.incr(`count:${number}`)]);
    await client.mset({ [`${key}:a`]: 'a', [`${key}:b`]: 'b' });
    await client.del(`${key}:a`, `${key}:b`);
    this.commands += 5;
    if (read !== value) this.failures.push(`${key} holds ${read}`);
    if (count <= counted) this.failures.push(`a counter went from ${counted} to ${count}`);
    return count;
  }
}

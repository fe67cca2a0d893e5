import type { Etcd3 } from 'etcd3';
import { StepwellError } from '../../../errors.ts';
import { type Candidacy, type Coordinator, TOKEN_MAX } from '../../../indexes/hstore/election.ts';
import { invalid, unsupported } from '../../arguments.ts';

export interface EtcdOptions {
  /** `HOST:PORT`, or `https://HOST:PORT` for TLS, of all members of the cluster. */
  hosts: readonly string[];
  /** Seconds after which a primary that does not answer is deposed. */
  ttl?: number;
  /** The prefix of all keys. */
  prefix?: string;
  /** The candidate's name, as people who inspect etcd see it. */
  candidate?: string;
}

const TTL_SECONDS = 5;
const PREFIX = 'stepwell/';
/** How many times in its term a lease is renewed, or a lease of another server asked for. */
const RENEWALS = 4;
const CONNECT_MS = 5000;

/** etcd elects the primaries: a lease with a key for each role, and its revision as the token. */
export class EtcdCoordinator implements Coordinator {
  readonly #client: Etcd3;
  readonly #options: EtcdOptions;
  readonly #campaigns: Campaign[] = [];

  private constructor(client: Etcd3, options: EtcdOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * @throws StepwellError SW_UNSUPPORTED without the package etcd3, SW_COORDINATION when no member
   *   of the cluster answers.
   */
  static async connect(options: EtcdOptions): Promise<EtcdCoordinator> {
    const { hosts, ttl = TTL_SECONDS } = options;
    if (!Number.isInteger(ttl) || ttl < 1 || ttl > 3600) {
      throw invalid(`a time to live is 1..3600 seconds: ${ttl}`);
    }
    const client = await newClient(hosts, ttl);
    try {
      await client.maintenance.status({ deadline: Date.now() + CONNECT_MS });
    } catch (cause) {
      client.close();
      const text = `etcd at ${hosts.join(', ')} does not answer: ${messageOf(cause)}`;
      throw new StepwellError('SW_COORDINATION', text, { cause });
    }
    return new EtcdCoordinator(client, options);
  }

  stand(name: string): Candidacy {
    const {
      ttl = TTL_SECONDS,
      prefix = PREFIX,
      candidate = `process ${process.pid}`,
    } = this.#options;
    const campaign = new Campaign(this.#client, `${prefix}${name}`, ttl, candidate);
    this.#campaigns.push(campaign);
    return campaign;
  }

  /** The error of the first campaign whose last attempt failed. */
  get problem(): string | undefined {
    return this.#campaigns.find(({ problem }) => problem !== undefined)?.problem;
  }

  async close(): Promise<void> {
    await Promise.all(this.#campaigns.map((campaign) => campaign.end()));
    this.#client.close();
  }
}

/**
 * Stands for one role for as long as the process lives. The key can be created only while no server
 * has it, and goes with its lease; the revision of its creation is greater than that of any key
 * before: the fencing token.
 *
 * The candidate counts the lease's time from before its renewal was sent, etcd from when it came.
 * So it stops believing in its election before etcd can elect another, unless the whole process
 * sleeps; then the token finds that out.
 */
class Campaign implements Candidacy {
  readonly #client: Etcd3;
  readonly #key: string;
  readonly #ttl: number;
  readonly #candidate: string;
  #lease: ReturnType<Etcd3['lease']> | undefined;
  #elected: number | undefined;
  #validUntil = 0;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> = Promise.resolve();
  #ended = false;
  problem: string | undefined;

  constructor(client: Etcd3, key: string, ttl: number, candidate: string) {
    this.#client = client;
    this.#key = key;
    this.#ttl = ttl;
    this.#candidate = candidate;
    this.#goOn();
  }

  get token(): number | undefined {
    return performance.now() < this.#validUntil ? this.#elected : undefined;
  }

  #goOn(): void {
    this.#working = this.#step().finally(() => {
      if (this.#ended) return;
      this.#timer = setTimeout(() => this.#goOn(), (1000 * this.#ttl) / RENEWALS);
    });
  }

  async #step(): Promise<void> {
    const sentAt = performance.now();
    try {
      await this.#renew();
      if (this.#elected === undefined) await this.#elect();
      this.#validUntil = sentAt + 1000 * this.#ttl;
      this.problem = undefined;
    } catch (error) {
      this.problem = messageOf(error);
      // The lease is over or was never granted, so the key is gone. Otherwise it may still be ours.
      const isOver = error instanceof Error && error.name === 'EtcdLeaseInvalidError';
      if (isOver || this.#elected === undefined) this.#lease = undefined;
      if (isOver) this.#elected = undefined;
    }
  }

  get #deadline() {
    return { deadline: Date.now() + (1000 * this.#ttl) / 2 };
  }

  async #renew(): Promise<void> {
    if (this.#lease !== undefined) {
      await this.#lease.keepaliveOnce(this.#deadline);
      return;
    }
    this.#elected = undefined;
    this.#lease = this.#client.lease(this.#ttl, { autoKeepAlive: false, ...this.#deadline });
    await this.#lease.grant();
  }

  async #elect(): Promise<void> {
    if (this.#lease === undefined) return;
    const id = await this.#lease.grant();
    const answer = await this.#client
      .if(this.#key, 'Create', '==', 0)
      .then(this.#client.put(this.#key).value(this.#candidate).lease(id))
      .options(this.#deadline)
      .commit();
    if (!answer.succeeded) return;
    const token = Number(answer.header.revision);
    if (!(token > 0 && token <= TOKEN_MAX)) throw new Error(`no token: revision ${token}`);
    this.#elected = token;
  }

  /** Revokes the lease, so that the next candidate need not wait until it runs out. */
  async end(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#working;
    this.#elected = undefined;
    await this.#lease?.revoke(this.#deadline).catch(() => {});
  }
}

async function newClient(hosts: readonly string[], ttl: number): Promise<Etcd3> {
  try {
    const { Etcd3 } = await import('etcd3');
    return new Etcd3({ hosts: [...hosts], dialTimeout: 500 * ttl });
  } catch (cause) {
    const isMissing = (cause as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND';
    if (!isMissing) throw invalid(messageOf(cause), { cause });
    throw unsupported('the package etcd3 is missing: npm install etcd3', {
      cause,
    });
  }
}

function messageOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0];
}

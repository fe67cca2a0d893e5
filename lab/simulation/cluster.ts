import { invariant } from '../../src/errors.ts';
import { ALWAYS } from '../../src/indexes/contract.ts';
import { RecordIo } from '../../src/indexes/substrates/record-io.ts';
import type { CatalogEntry } from '../../src/pool/catalog.ts';
import { currentThread } from '../../src/pool/clients/thread-identity.ts';
import type { PoolParameters } from '../../src/pool/layout.ts';
import { LocalPool } from '../../src/pool/local-pool.ts';
import { formatSuperblock } from '../../src/pool/superblock.ts';
import { SimulatedFabric } from '../simulated/fabric.ts';
import type { LocalModel } from '../simulated/local-door.ts';
import { SimulatedMemory } from '../simulated/memory.ts';
import type { NetworkModel } from '../simulated/model.ts';
import { type Place, SimulatedNetwork } from '../simulated/network.ts';
import { KeyGenerator, ShortKeyGenerator, ValueGenerator } from '../workloads/index.ts';
import type { IndexKind, TimedIndex } from './index-kind.ts';
import { PoolClient } from './pool-client.ts';

interface ClusterOptions<I extends TimedIndex = TimedIndex> {
  model: NetworkModel;
  seed: number;
  kind: IndexKind<I>;
  /** Rows of the client table, the loader's included. */
  clients: number;
  poolBytes?: number;
  memoryNodes?: number;
  computeNodes?: number;
  acrossNodes?: 'ordered' | 'unordered';
  /** How clients on a memory node's machine access its memory. */
  local?: LocalModel;
  /** Default: 32, so that a record takes one line. */
  valueBytes?: number;
  /** Default: 16. */
  keyBytes?: 8 | 16;
}

const DEFAULT_POOL_BYTES = 2 ** 27;
/** A pool fills region after region. Small ones, dealt out in turn, spread it over the nodes. */
const TURN_BYTES = 2 ** 20;
/** How many retired blocks the loader accumulates before it reclaims them. */
const LOADER_RETIRES = 16;
/** Header, a key of 16 bytes and a value of 32. */
const RECORD_UNITS = 1;

/** A pool with one index on simulated memory nodes, and clients on compute nodes. */
export class SimulatedCluster<I extends TimedIndex = TimedIndex> {
  readonly network: SimulatedNetwork;
  readonly keys: KeyGenerator;
  readonly values: ValueGenerator;
  readonly #kind: IndexKind<I>;
  readonly #memory: SimulatedMemory;
  readonly #parameters: PoolParameters;
  readonly #loader: LocalPool;
  readonly #entry: CatalogEntry;
  #joined = 0;

  constructor(options: ClusterOptions<I>) {
    const { model, seed, kind, clients, poolBytes = DEFAULT_POOL_BYTES } = options;
    const { memoryNodes = 1, computeNodes = 1, acrossNodes } = options;
    this.keys = options.keyBytes === 8 ? new ShortKeyGenerator() : new KeyGenerator();
    this.values = new ValueGenerator(options.valueBytes);
    const regionBytes = memoryNodes === 1 ? poolBytes : TURN_BYTES;
    const regions = poolBytes / regionBytes;
    this.#parameters = {
      regionBytes,
      regionsMax: regions,
      clientsMax: clients + 1,
      createdAt: 0,
      poolId: 0,
    };
    this.#memory = new SimulatedMemory({ regions, regionBytes, nodes: memoryNodes });
    this.#memory.put(0, formatSuperblock(this.#parameters));
    const memory = this.#memory;
    const { local } = options;
    const many = { computeNodes, acrossNodes, ...(local && { local }) };
    this.network = new SimulatedNetwork({ model, memory, seed, ...many });
    this.#kind = kind;
    this.#loader = this.#join();
    this.#entry = this.#loader.run(kind.create(this.#loader));
  }

  /** Puts records 0..count-1 into the index before the clock starts. */
  load(count: number): void {
    const pool = this.#loader;
    const index = pool.run(this.#kind.open(pool, this.#entry));
    const records = this.#records(pool, index);
    const request = index.newRequest();
    pool.run(pool.reclamation.quiesce());
    for (let i = 0; i < count; i++) {
      const key = this.keys.bytes(i);
      records.encode(request, key, this.values.buffer(i), 0);
      pool.run(index.write(request, ALWAYS));
      if (pool.reclamation.retired > LOADER_RETIRES) this.#reclaim();
    }
    this.#reclaim();
    pool.run(pool.reclamation.goOffline());
    invariant(pool.reclamation.retired === 0, 'every block that was retired while loading is free');
  }

  /** The loader is the only client, so it need not wait for others. */
  #reclaim(): void {
    const { reclamation } = this.#loader;
    this.#loader.run(reclamation.quiesce());
    this.#loader.run(reclamation.collect());
  }

  /**
   * A client that has the index open, on a compute node or on a memory node's machine. From the
   * start it claims blocks as in the middle of a burst of writes: many at once, ahead of need.
   */
  addClient(place: Place = 0, coroutines = 1): PoolClient<I> {
    const pool = this.#join();
    const sizeClass = pool.allocator.sizeClass(this.#entry.id, RECORD_UNITS);
    sizeClass.batch = sizeClass.claimsMax(false);
    sizeClass.wanted = true;
    const index = pool.run(this.#kind.open(pool, this.#entry));
    return new PoolClient(this.network, pool, index, this.#records(pool, index), {
      place,
      coroutines,
    });
  }

  #records(pool: LocalPool, { records }: I): RecordIo {
    return new RecordIo(pool, this.#entry.id, records.seed);
  }

  /** Like LocalPool.join, but without process checks: all clients are in this thread. */
  #join(): LocalPool {
    const fabric = new SimulatedFabric(this.#memory);
    const thread = { ...currentThread(), tid: 1 + this.#joined };
    const pool = new LocalPool(fabric, this.#parameters, this.#memory, thread);
    pool.timer.now = () => this.network.now / 1e6;
    const { membership } = pool;
    membership.liveness = () => 'alive';
    pool.run(membership.join(`client ${this.#joined++}`));
    pool.allocator.client = { owner: membership.id, incarnation: membership.incarnation };
    return pool;
  }
}

import type { ChimeIndex } from '../../src/indexes/chime/chime.ts';
import { NodeCache } from '../../src/indexes/chime/nodes/cache.ts';
import { LeafOrders } from '../../src/indexes/chime/scan/leaf-orders.ts';
import type { ChimeTree } from '../../src/indexes/chime/tree.ts';
import { Hotspots } from '../../src/indexes/substrates/leaf/hotspots.ts';
import { CONNECTX6 } from '../simulated/model.ts';
import { percent } from '../support/text.ts';
import { PlainlyReadTree, type PlainReads } from './chime-reads.ts';
import { SimulatedCluster } from './cluster.ts';
import type { Row, Settings } from './experiment.ts';
import { doubled, type IndexKind, type TimedIndex } from './index-kind.ts';
import { registeredKind } from './registered-kind.ts';
import { type Saturation, saturate } from './saturation.ts';

/** CHIME section 5.1: compute nodes, sizes of keys and values, parameters of the tree. */
const COMPUTE_NODES = 10;
const PAPERS = { keyBytes: 8, valueBytes: 8 } as const;
const PAPERS_SHAPE = { span: 64, neighbourhood: 8, inlineBytes: 16 };
export const CHIME_HARDWARE: string = CONNECTX6.name;
/** Enough for hundreds of clients, each of which holds chunks for several block sizes. */
const POOL_BYTES = 2 ** 30;
/** The paper loads 60 million. */
export const RECORDS = 60_000;
/** The paper's 30 MB hold 16-byte entries for 3.3 % of its records. */
export const HOTSPOTS = 2048;
const ZIPF = 0.99;

/** What the experiments vary. */
export interface ChimeLoad {
  clients: number;
  coroutines?: number;
  /** Parameters of the tree. */
  wishes?: Readonly<Record<string, number>>;
  /** Searches with this test double instead of the tree itself. */
  plain?: PlainReads;
  /** Keys in the hotspot buffer of each compute node. */
  hotspots?: number;
  theta?: number;
  /** Share of updates; the rest are searches. */
  updates?: number;
  valueBytes?: number;
}

/** A cluster like the paper's, with its records loaded. */
export function chimeCluster<I extends TimedIndex>(
  { model, seed }: Settings,
  kind: IndexKind<I>,
  clients: number,
  valueBytes: number = PAPERS.valueBytes,
  records: number = RECORDS,
): SimulatedCluster<I> {
  const cluster = new SimulatedCluster<I>({
    model,
    seed,
    kind,
    clients,
    keyBytes: PAPERS.keyBytes,
    valueBytes,
    computeNodes: COMPUTE_NODES,
    poolBytes: POOL_BYTES,
  });
  cluster.load(records);
  return cluster;
}

export function chimeKind({
  wishes,
  hotspots = 0,
}: Omit<ChimeLoad, 'clients'>): IndexKind<ChimeIndex> {
  const nodes = Array.from({ length: COMPUTE_NODES }, () => new ComputeNode(hotspots));
  let opened = 0;
  return registeredKind<ChimeIndex>('chime', { ...PAPERS_SHAPE, ...wishes }, ({ tree }) => {
    nodes[opened++ % COMPUTE_NODES].join(tree);
  });
}

/**
 * What all clients of a compute node share, as in the paper: cached internal nodes (section 5.1)
 * and the hotspot buffer (section 4.3). Clients of the product share neither: each is a thread.
 */
class ComputeNode {
  readonly #clients: ChimeTree[] = [];
  readonly #hotspots: Hotspots;
  #cache: NodeCache | undefined;

  constructor(hotspots: number) {
    this.#hotspots = new Hotspots(hotspots);
  }

  join(tree: ChimeTree): void {
    this.#clients.push(tree);
    this.#cache ??= new NodeCache(this, tree.cache.bytesMax);
    const orders = new LeafOrders(tree.geometry, this.#cache);
    Object.assign(tree, { cache: this.#cache, orders, hotspots: this.#hotspots });
  }

  /**
   * The latest epoch of any client. A link that was read in it leads to no reused block for the
   * others either: they have announced the same epoch or an older one, and so hold back more.
   */
  get announced(): number {
    return Math.max(...this.#clients.map(({ pool }) => pool.reclamation.announced));
  }
}

export function runChime(settings: Settings, load: ChimeLoad): Saturation {
  const { clients, coroutines = 1, plain, valueBytes, theta = ZIPF, updates } = load;
  const tree = chimeKind(load);
  const kind: IndexKind = plain ? doubled(tree, (it) => new PlainlyReadTree(it.tree, plain)) : tree;
  const cluster = chimeCluster(settings, kind, clients, valueBytes);
  const operations = { kind: 'search', clients, coroutines, records: RECORDS } as const;
  return saturate(cluster, { ...operations, theta, updates }, settings);
}

export function rateRow(what: string, { rate, use, latencies }: Saturation): Row {
  const [node] = use.memoryNodes;
  const figures = {
    messages: node.messages,
    linkOut: node.outbound,
    atomics: node.atomics,
    p50: latencies.quantile(0.5) / 1000,
    p99: latencies.quantile(0.99) / 1000,
  };
  const detail = [
    `messages ${percent(node.messages, 0)}, link out ${percent(node.outbound, 0)}`,
    `atomics ${percent(node.atomics, 0)}`,
    `p50 ${figures.p50.toFixed(1)}, p99 ${figures.p99.toFixed(1)} us`,
  ].join('; ');
  return { what, ours: rate / 1e6, unit: 'M/s', detail, figures };
}

export function ratioRow(what: string, ours: number, published?: number): Row {
  return { what, ours, unit: 'x', ...(published !== undefined && { published }) };
}

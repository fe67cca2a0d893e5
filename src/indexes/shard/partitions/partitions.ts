import { StepwellError } from '../../../errors.ts';
import { ANY_NODE } from '../../../pool/memory/chunks.ts';
import type { Pool } from '../../../pool/pool.ts';
import { type Address, type Operation, UNIT_BYTES } from '../../../verbs/index.ts';
import { techniquesOf } from '../../substrates/parameters.ts';
import { RecordIo } from '../../substrates/record-io.ts';
import { SHARD_TECHNIQUES, type ShardShape } from '../parameters.ts';
import { ShardGeometry } from '../table/geometry.ts';
import { makeFirstSegment } from '../table/pieces.ts';
import type { ShardRequest } from '../table/request.ts';
import { type RootName, Segments } from '../table/segments.ts';
import { ShardTable, type SharedParts } from '../table/table.ts';
import { directoryBytes, NODES_MAX, PartitionDirectory } from './partition-directory.ts';
import { Placement, partitionOf } from './placement.ts';

/** Attempts to read all tables before any migration ends. */
const LOOKS_MAX = 1000;

/** One client's handle of all tables of an index. */
export class Partitions {
  readonly pool: Pool;
  readonly geometry: ShardGeometry;
  readonly tables: readonly ShardTable[];
  readonly directory: PartitionDirectory;
  /** The number of migrations when the tables' addresses were read. */
  #seen: number;

  private constructor(shared: SharedParts, roots: readonly RootName[], seen: number) {
    const { pool, geometry, directory } = shared;
    this.pool = pool;
    this.geometry = geometry;
    this.directory = directory;
    this.#seen = seen;
    this.tables = roots.map(
      (one, partition) => new ShardTable(shared, partition, new Segments(one, geometry)),
    );
  }

  tableOf({ hash }: ShardRequest): ShardTable {
    const { tables } = this;
    return tables.length === 1 ? tables[0] : tables[partitionOf(hash, tables.length)];
  }

  /**
   * Whether the cached addresses of the tables are current. During a migration, the words in a
   * table's old place send clients to the new one. Afterwards the old place is freed, and no client
   * may read it: see Reclamation.migrations.
   */
  get isCurrent(): boolean {
    return this.#seen === this.pool.reclamation.migrations;
  }

  /** Looks the tables up again: one round trip, and more for each that has been migrated. */
  *refresh(): Operation<void> {
    const { migrations } = this.pool.reclamation;
    const { roots } = yield* this.directory.read();
    for (const table of this.tables) {
      const root = roots[table.partition];
      const { segments } = table;
      if (root !== segments.name || segments.former !== undefined) yield* table.reload(root);
    }
    this.#seen = migrations;
  }

  /** Allocates and fills empty tables; returns the root for the catalog. */
  static *build(pool: Pool, shape: ShardShape, catalog: number): Operation<Address> {
    const { allocator, layout } = pool;
    const geometry = new ShardGeometry(shape, layout.parameters.regionBytes);
    const { partitions } = shape;
    if (layout.stripe > NODES_MAX && partitions > 1) {
      const limit = `tables are placed on at most ${NODES_MAX} memory nodes`;
      throw new StepwellError('SW_INVALID_ARGUMENT', limit);
    }
    const units = Math.ceil(directoryBytes(partitions) / UNIT_BYTES);
    const root = yield* allocator.spans.allocate(catalog, units);
    const nodes = Array.from({ length: Math.min(layout.stripe, NODES_MAX) }, (_, node) => node);
    const placement = new Placement(nodes, partitions);
    const segments: Address[] = [];
    for (let partition = 0; partition < partitions; partition++) {
      const node = nodes.length > 1 ? placement.nodeOf(partition) : ANY_NODE;
      segments.push(yield* makeFirstSegment({ allocator, catalog, geometry }, node));
    }
    yield* new PartitionDirectory(root, geometry).write(nodes, segments);
    return root;
  }

  static *open(
    pool: Pool,
    shape: ShardShape,
    catalog: number,
    root: Address,
  ): Operation<Partitions> {
    const { reclamation } = pool;
    const geometry = new ShardGeometry(shape, pool.layout.parameters.regionBytes);
    const directory = new PartitionDirectory(root, geometry);
    const shared: SharedParts = {
      pool,
      catalog,
      geometry,
      directory,
      records: new RecordIo(pool, catalog, shape.seed),
      techniques: techniquesOf(SHARD_TECHNIQUES, shape.without),
    };
    // A client that opens a store may not have announced an epoch, so a migration may free what it
    // reads. It reads again if one ended meanwhile.
    const isMovable = pool.layout.stripe > 1;
    let now = isMovable ? yield* reclamation.readMigrations() : 0;
    for (let look = 0; look < LOOKS_MAX; look++) {
      const seen = now;
      const { roots } = yield* directory.read();
      const partitions = new Partitions(shared, roots, seen);
      yield* ShardTable.loadAll(partitions.tables);
      if (isMovable) now = yield* reclamation.readMigrations();
      if (now === seen) return partitions;
    }
    const why = `other clients migrated tables during each of ${LOOKS_MAX} attempts to read them`;
    throw new StepwellError('SW_CONTENTION', why);
  }
}

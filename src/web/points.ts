import type { PoolFigures } from '../store/watching/figures.ts';

/** A past moment, for the charts; null is a gap. */
export interface Point {
  /** Milliseconds since 1970. */
  at: number;
  reads: number | null;
  writes: number | null;
  scanned: number | null;
  evicted: number | null;
  hitRate: number | null;
  readP50: number | null;
  readP99: number | null;
  writeP50: number | null;
  writeP99: number | null;
  bytesUsed: number | null;
  clients: number | null;
}

const POINTS_MAX = 1800;

/** The last half hour, one point a second. */
export class History {
  readonly #points: Point[] = [];

  add(figures: PoolFigures): void {
    const { at, sum, stores, clients, bytesUsed } = figures;
    this.#points.push({
      at,
      reads: sum.reads,
      writes: sum.writes,
      scanned: sum.scanned,
      evicted: stores.reduce((all, { bound }) => all + (bound?.evictionsPerSecond ?? 0), 0),
      hitRate: sum.hitRate,
      readP50: sum.readLatency?.p50 ?? null,
      readP99: sum.readLatency?.p99 ?? null,
      writeP50: sum.writeLatency?.p50 ?? null,
      writeP99: sum.writeLatency?.p99 ?? null,
      bytesUsed,
      clients: clients.length,
    });
    if (this.#points.length > POINTS_MAX) this.#points.shift();
  }

  /** The points after a time. */
  after(at: number): Point[] {
    return this.#points.filter((point) => point.at > at);
  }
}

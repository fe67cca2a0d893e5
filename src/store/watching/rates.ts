import type { ClientFigures, Percentiles } from '../../pool/clients/meter.ts';
import type { ClientLook } from '../administration/look.ts';
import type { BoundStats } from '../api.ts';
import type { ClientRates, Rates, StoreFigures } from './figures.ts';

/** A client that has told nothing new for so long does nothing, in milliseconds. */
const IDLE_AFTER_MS = 2500;
/** Beside the time between two looks: how late a client may tell. */
const TOLD_LATE_MS = 1000;

const NOTHING: Rates = {
  reads: 0,
  writes: 0,
  scanned: 0,
  hitRate: null,
  readLatency: null,
  writeLatency: null,
};

interface Seen {
  attachedAt: number;
  /** Undefined as long as the client has told nothing. */
  figures: ClientFigures | undefined;
  /** When this was first seen. */
  at: number;
  rates: Rates;
  /** As in the look. */
  lagsAt: number;
}

/** Rates of clients: what they have told since they last told something. */
export class ClientMeters {
  #seen = new Map<number, Seen>();

  /** The clients of a look, without the one that looks. */
  take(clients: readonly ClientLook[], at: number, before: number) {
    const seen = new Map<number, Seen>();
    const found = clients
      .filter(({ self }) => !self)
      .map((client): ClientRates => {
        const now = this.#next(client, at, before);
        const lags = client.lagsAt !== 0 && this.#seen.get(client.id)?.lagsAt === client.lagsAt;
        seen.set(client.id, { ...now, lagsAt: client.lagsAt });
        const isIdle = at - now.at > IDLE_AFTER_MS;
        const { id, name, pid, network, alive, attachedAt, claimed, waiting } = client;
        const who = { id, name, pid, network, alive, attachedAt, claimed, waiting, lags };
        const toldAgo = now.figures === undefined ? null : Math.max(0, at - now.at);
        return { ...who, toldAgo, ...(isIdle ? NOTHING : now.rates) };
      });
    this.#seen = seen;
    return found;
  }

  #next(client: ClientLook, at: number, before: number): Omit<Seen, 'lagsAt'> {
    const { attachedAt, figures } = client;
    const known = this.#seen.get(client.id);
    const last = known?.attachedAt === attachedAt ? known : undefined;
    if (last !== undefined && last.figures?.toldAt === figures?.toldAt) return last;
    if (figures === undefined) return { attachedAt, figures, at, rates: NOTHING };
    // What a client did before it was first seen says nothing of now.
    if (last === undefined && attachedAt < before) {
      return { attachedAt, figures, at, rates: NOTHING };
    }
    const told = figures.toldAt - (last?.figures?.toldAt ?? attachedAt);
    // After a pause the whole pause would count.
    const milliseconds = Math.max(1, Math.min(told, at - before + TOLD_LATE_MS));
    const rates = between(last?.figures, figures, milliseconds / 1000);
    return { attachedAt, figures, at, rates };
  }
}

/** Counts are modulo 2^32. */
function between(from: ClientFigures | undefined, to: ClientFigures, seconds: number): Rates {
  const grown = (count: 'reads' | 'misses' | 'writes' | 'scanned') =>
    (to[count] - (from?.[count] ?? 0)) >>> 0;
  return {
    reads: grown('reads') / seconds,
    writes: grown('writes') / seconds,
    scanned: grown('scanned') / seconds,
    hitRate: shareOf(grown('reads') - grown('misses'), grown('reads')),
    readLatency: to.read.p50 === 0 ? null : to.read,
    writeLatency: to.write.p50 === 0 ? null : to.write,
  };
}

function shareOf(part: number, whole: number): number | null {
  return whole > 0 ? Math.max(0, part) / whole : null;
}

/** All of them together. A percentile of all is at most that of the slowest client. */
export function sumOf(clients: readonly Rates[]): Rates {
  const sum = (of: 'reads' | 'writes' | 'scanned') =>
    clients.reduce((all, one) => all + one[of], 0);
  const reads = sum('reads');
  const hits = clients.reduce((all, { reads, hitRate }) => all + reads * (hitRate ?? 0), 0);
  return {
    reads,
    writes: sum('writes'),
    scanned: sum('scanned'),
    hitRate: shareOf(hits, reads),
    readLatency: slowest(clients.filter((one) => one.reads > 0).map((one) => one.readLatency)),
    writeLatency: slowest(clients.filter((one) => one.writes > 0).map((one) => one.writeLatency)),
  };
}

function slowest(all: readonly (Percentiles | null)[]): Percentiles | null {
  const found = all.filter((one) => one !== null);
  if (found.length === 0) return null;
  const most = (of: keyof Percentiles) => Math.max(...found.map((one) => one[of]));
  return { p50: most('p50'), p90: most('p90'), p99: most('p99'), p999: most('p999') };
}

/** What a bounded store has done since an earlier look. */
export function boundRates(
  from: BoundStats | undefined,
  to: BoundStats,
  milliseconds: number,
): NonNullable<StoreFigures['bound']> {
  const grown = (of: 'evictions' | 'hits' | 'misses') =>
    Math.max(0, to[of] - (from?.[of] ?? to[of]));
  const evictionsPerSecond = (1000 * grown('evictions')) / Math.max(1, milliseconds);
  const hitRate = shareOf(grown('hits'), grown('hits') + grown('misses'));
  return { ...to, evictionsPerSecond, hitRate };
}

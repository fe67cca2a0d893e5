import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type AnyStore, promised } from '../../helpers/host.ts';
import type { ClientCounters } from '../../store/api.ts';
import { checkFlag, checkOptions, invalid } from '../../store/arguments.ts';

type Attributes = Record<string, string>;

interface MetricOptions {
  description?: string;
  unit?: string;
}

/** The part of `@opentelemetry/api`'s observable instruments that `observe` uses. */
export interface ObservableLike {
  addCallback(observer: Observer): void;
  removeCallback(observer: Observer): void;
}

type Observer = (result: {
  observe(value: number, attributes?: Attributes): void;
}) => void | Promise<void>;

/** The part of `@opentelemetry/api`'s `Meter` that `observe` uses. */
export interface MeterLike {
  createCounter(
    name: string,
    options?: MetricOptions,
  ): { add(value: number, attributes?: Attributes): void };
  createObservableCounter(name: string, options?: MetricOptions): ObservableLike;
  createObservableGauge(name: string, options?: MetricOptions): ObservableLike;
}

/** Options of `observe`. */
export interface ObserveOptions {
  /** As `metrics.getMeter('stepwell')` returns it. */
  meter: MeterLike;
  /** Whether records are counted at each collection, which may walk the store. Default false. */
  records?: boolean;
}

/** Counted events whose message names a store. */
const EVENTS_OF_STORE = ['full', 'sweep'] as const;
/** Counted events of this process, in any pool. */
const EVENTS = ['death', 'recovery'] as const;

/**
 * Reports to a meter what this client does in a store: verbs, bytes and round trips (of all stores
 * that share the client), retries and resizes by reason, and events. It reads nothing from the pool
 * unless `records` is true. To stop, dispose of the result. A closed store reports nothing.
 */
export function observe(store: AnyStore, options: ObserveOptions): Disposable {
  checkOptions(options, ['meter', 'records']);
  const { meter, records = false } = options;
  if (typeof meter?.createObservableCounter !== 'function') throw invalid('observe needs a meter');
  checkFlag('records', records);
  const host = promised(store);
  const attributes = { 'stepwell.store': host.name };
  const ends = [
    ...counted(meter, attributes, () => host.counters()),
    ...events(meter, attributes, host.name),
  ];
  if (records) {
    const about = { description: 'Records in the store' };
    const gauge = meter.createObservableGauge('stepwell.records', about);
    ends.push(attached(gauge, async (result) => result.observe(await host.size(), attributes)));
  }
  return {
    [Symbol.dispose]() {
      for (const end of ends.splice(0)) end();
    },
  };
}

function counted(
  meter: MeterLike,
  attributes: Attributes,
  read: () => Promise<ClientCounters>,
): (() => void)[] {
  const counter = (
    name: string,
    description: string,
    values: (counters: ClientCounters) => readonly (readonly [number, Attributes])[],
    unit?: string,
  ) =>
    attached(meter.createObservableCounter(name, { description, unit }), async (result) => {
      for (const [value, more] of values(await read())) {
        result.observe(value, { ...attributes, ...more });
      }
    });
  const named = (counts: Readonly<Record<string, number>>, attribute: string) =>
    Object.entries(counts).map(([name, count]) => [count, { [attribute]: name }] as const);
  return [
    counter('stepwell.round_trips', 'Doorbell batches posted', ({ traffic }) => [
      [traffic.roundTrips, {}],
    ]),
    counter('stepwell.verbs', 'Verbs posted', ({ traffic }) => {
      const { reads, writes, compareAndSwaps, fetchAndAdds } = traffic;
      return named({ reads, writes, compareAndSwaps, fetchAndAdds }, 'stepwell.verb');
    }),
    counter(
      'stepwell.bytes',
      'Bytes that verbs carried',
      ({ traffic: { bytesRead, bytesWritten } }) =>
        named({ read: bytesRead, written: bytesWritten }, 'stepwell.direction'),
      'By',
    ),
    counter('stepwell.retries', 'Operations that began again', ({ retries }) =>
      named(retries, 'stepwell.reason'),
    ),
    counter('stepwell.resizes', 'Steps by which this client let the index grow', ({ resizes }) =>
      named(resizes, 'stepwell.resize'),
    ),
  ];
}

function events(meter: MeterLike, attributes: Attributes, store: string): (() => void)[] {
  const counter = meter.createCounter('stepwell.events', { description: 'Events, by name' });
  return [...EVENTS_OF_STORE, ...EVENTS].map((event) => {
    const count = (message: unknown) => {
      const { store: named = store } = message as { store?: string };
      if (named === store) counter.add(1, { ...attributes, 'stepwell.event': event });
    };
    subscribe(`stepwell:${event}`, count);
    return () => {
      unsubscribe(`stepwell:${event}`, count);
    };
  });
}

/** Adds an observer that ignores errors: a store that was closed must not fail a collection. */
function attached(instrument: ObservableLike, observer: Observer): () => void {
  const quiet: Observer = async (result) => {
    try {
      await observer(result);
    } catch {
      // Nothing to report.
    }
  };
  instrument.addCallback(quiet);
  return () => instrument.removeCallback(quiet);
}

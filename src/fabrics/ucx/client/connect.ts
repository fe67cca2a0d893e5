import { StepwellError } from '../../../errors.ts';
import type { PairOrders } from '../../tcp/client/flight.ts';
import type { Credentials, Place } from '../../tcp/client/queue-pair.ts';
import { type FabricReport, type PairMaker, TcpFabric } from '../../tcp/client/tcp-fabric.ts';
import type { Endpoint } from '../../tcp/endpoint.ts';
import { loadUcx } from '../binding/library.ts';
import type { LentMemory } from '../lent-memory.ts';
import type { Transports } from '../transports.ts';
import type { ProvenOrders } from './trials.ts';
import { UcxClient } from './ucx-client.ts';
import { UcxPair } from './ucx-pair.ts';

/**
 * Connects to all nodes, in the order in which regions are distributed: by TCP, and for verbs by
 * UCX. Raises what `TcpFabric.connect` raises, and SW_UNSUPPORTED if UCX is not installed or this
 * machine lacks the transports of the nodes.
 */
export function connectUcx(
  endpoints: readonly Endpoint[],
  credentials: Credentials = {},
): Promise<TcpFabric> {
  return TcpFabric.connect(endpoints, credentials, new UcxPairs());
}

/** The queue pairs of one client. They share a worker and use the same transports. */
class UcxPairs implements PairMaker {
  readonly #ucx = loadUcx();
  #client: UcxClient | undefined;
  readonly #proven: ProvenOrders[] = [];

  async connect(endpoint: Endpoint, place: Place, credentials: Credentials): Promise<UcxPair> {
    const clientFor = (lent: LentMemory) => this.#clientFor(lent);
    const pair = await UcxPair.connect(endpoint, place, credentials, clientFor);
    this.#proven.push(pair.proven);
    return pair;
  }

  #clientFor({ transports }: LentMemory): UcxClient {
    // The client is closed if all earlier queue pairs have failed.
    let client = this.#client;
    if (client === undefined || client.isClosed) {
      client = new UcxClient(this.#ucx, forClient(transports));
      this.#client = client;
    }
    const { names } = client.transports;
    if (names === transports.names) return client;
    const why = `memory nodes of one pool use transports ${names} and ${transports.names}`;
    throw new StepwellError('SW_UNSUPPORTED', `${why}: start all of them with the same ones`);
  }

  orders(): PairOrders {
    const { atomics, isOnePath } = this.#known.transports;
    // Without room for its answer, a processor executes a READ later.
    const others = isOnePath && this.#proven.every(({ ordered }) => ordered);
    const readThenAtomic = others && atomics === 'device';
    return { readThenAtomic, others };
  }

  soon(flush: () => void): void {
    this.#known.soon(flush);
  }

  report(): FabricReport {
    const { names, device, atomics, isOnePath } = this.#known.transports;
    const notes: string[] = [];
    if (!this.#ucx.isTested) notes.push(`UCX ${this.#ucx.version} was not tested with Stepwell`);
    if (!isOnePath) notes.push('several transports: what the contract orders is waited for');
    const broken = this.#proven.find(({ ordered }) => !ordered);
    if (broken) notes.push(`${broken.reason}: what the contract orders is waited for`);
    if (atomics === 'cpu') {
      notes.push('an atomic behind a READ waits for it: a processor may answer READs late');
    }
    return {
      name: 'ucx',
      version: this.#ucx.version,
      transports: device === undefined ? names : `${names} on ${device}`,
      atomics: atomics === 'cpu' ? 'processor' : 'network card',
      notes,
    };
  }

  get #known(): UcxClient {
    if (this.#client === undefined) throw new StepwellError('SW_CLOSED', 'no memory node');
    return this.#client;
  }

  close(): void {
    this.#client?.close();
  }
}

/** Cards have different names on each machine. UCX_NET_DEVICES selects that of a client. */
function forClient(transports: Transports): Transports {
  const { device } = transports;
  return { ...transports, device: device === 'lo' ? device : undefined };
}

import type { Index } from '../../indexes/contract.ts';
import { isHStore } from '../../indexes/hstore/hstore.ts';
import type {
  PairServers,
  ServedRound,
  ServerSettings,
} from '../../indexes/hstore/index-server.ts';
import { storeDropped } from '../../pool/open-stores.ts';
import type { Pool } from '../../pool/pool.ts';
import type { OpenOptions } from '../api.ts';
import { unsupported } from '../arguments.ts';
import { attach } from '../open.ts';
import { credentialsOf, isRemote, parseRemote } from '../remote/address.ts';
import { attachRemote } from '../remote/attach.ts';
import { clientName, openStore } from '../store-in-pool.ts';

/** How many rounds with answers run before the event loop turns. */
const ROUNDS_IN_A_ROW = 256;
/** After how many rounds without an answer the server sleeps between rounds. */
const ROUNDS_AWAKE = 2000;
const SLEEP_MS = 1;

/** A process that runs the hash server, the skiplist server, or both, of an HStore store. */
export interface RunningIndexServer {
  /** See `PairServers.round`. A promise on memory nodes. */
  round(): ServedRound | Promise<ServedRound>;
  /** Gives up the leases and leaves the pool. */
  close(): Promise<void>;
}

export type ServerOptions = OpenOptions & Pick<ServerSettings, 'role' | 'pairs' | 'coordinator'>;

/**
 * Attaches as a server of an existing store. A store also works without server processes: its
 * clients then take turns as servers.
 *
 * @throws StepwellError SW_UNSUPPORTED when the store's index has no servers, SW_INVALID_ARGUMENT
 *   for pairs that it does not have.
 */
export async function openIndexServer(
  url: string,
  options: ServerOptions,
): Promise<RunningIndexServer> {
  return isRemote(url) ? await openOnNodes(url, options) : openOnMachine(url, options);
}

function openOnMachine(url: string, options: ServerOptions): RunningIndexServer {
  const { client } = attach(url, { ...options, create: false });
  const { pool } = client;
  try {
    const { index, store } = client.open({ ...options, create: false });
    const server = serverOf(pool, index, options);
    return {
      round() {
        pool.enterStore(store);
        try {
          return pool.run(server.round());
        } finally {
          pool.exit();
        }
      },
      async close() {
        if (!pool.closed) pool.run(server.stop());
        client.end();
      },
    };
  } catch (error) {
    client.end();
    throw error;
  }
}

async function openOnNodes(url: string, options: ServerOptions): Promise<RunningIndexServer> {
  const location = parseRemote(url);
  const named = { ...options, store: options.store ?? location.store, create: false };
  const credentials = credentialsOf(location, named);
  const client = clientName(named);
  const { pool, fabric } = await attachRemote(location, credentials, named, client);
  const leave = async () => {
    await pool.close().catch(() => {});
    fabric.close();
  };
  try {
    const { index, store } = await pool.run(openStore(pool, named));
    const server = serverOf(pool, index, named);
    return {
      async round() {
        await pool.enter();
        try {
          if (store.dropped) throw storeDropped(store.name);
          return await pool.run(server.round());
        } finally {
          pool.exit();
        }
      },
      async close() {
        await pool.run(server.stop()).catch(() => {});
        await leave();
      },
    };
  } catch (error) {
    await leave();
    throw error;
  }
}

function serverOf(pool: Pool, index: Index, options: ServerOptions): PairServers {
  const { role, pairs, coordinator, store = 'default' } = options;
  if (isHStore(index)) {
    const name = `${pool.layout.parameters.poolId}/${encodeURIComponent(store)}`;
    return index.server({ role, pairs, coordinator, name, now: () => performance.now() });
  }
  const { name } = index.manifest;
  throw unsupported(`the index ${name} has no servers; hstore has`);
}

/** Serves until the signal: continuously while requests come, else once a millisecond. */
export async function serveIndex(
  server: RunningIndexServer,
  signal: AbortSignal,
  onHeld: (leases: number) => void = () => {},
): Promise<void> {
  let idle = 0;
  let held = 0;
  while (!signal.aborted) {
    let round = await server.round();
    // The last round of a row usually finds nothing; what counts is whether the first one did.
    idle = round.answered > 0 ? 0 : idle + 1;
    for (let i = 1; i < ROUNDS_IN_A_ROW && round.answered > 0; i++) round = await server.round();
    if (round.held !== held) onHeld(round.held);
    held = round.held;
    if (idle < ROUNDS_AWAKE) await new Promise((resolve) => setImmediate(resolve));
    else await new Promise((resolve) => setTimeout(resolve, SLEEP_MS));
  }
}

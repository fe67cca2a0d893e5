import type { ClientMemory } from './connections/client-memory.ts';
import type { ConnectionState } from './connections/connection-state.ts';
import type { Pause } from './connections/pause.ts';
import type { Databases } from './databases.ts';
import type { Gate } from './gate.ts';
import type { GatewayPool } from './gateway-store.ts';
import type { Channels, Subscriber } from './messages/channels.ts';
import type { MessageBus } from './messages/message-bus.ts';
import type { Monitors } from './observation/monitors.ts';
import type { SlowLog } from './observation/slow-log.ts';
import type { Passwords } from './passwords.ts';
import type { GatewayLimits, Settings } from './settings.ts';

/** The part of the server that commands read and change. */
export interface ServerView {
  readonly host: string;
  readonly port: number;
  readonly limits: GatewayLimits;
  readonly settings: Settings;
  /** Counts the memory of all connections. */
  readonly memory: ClientMemory;
  readonly clients: ReadonlyMap<number, Client>;
  readonly databases: Databases;
  /** Runs operations on their stores. */
  readonly pool: GatewayPool;
  readonly gate: Gate;
  readonly passwords: Passwords | undefined;
  readonly pause: Pause;
  readonly channels: Channels;
  readonly messages: MessageBus;
  readonly monitors: Monitors;
  readonly slowLog: SlowLog;
  readonly startedAt: number;
  readonly totals: Totals;
}

/** Counters since the server started, or since CONFIG RESETSTAT. */
export class Totals {
  connections = 0;
  rejectedConnections = 0;
  evictedConnections = 0;
  commands = 0;
  errors = 0;
  bytesIn = 0;
  bytesOut = 0;
  hits = 0;
  misses = 0;
}

/** The part of a connection that commands of other connections use. */
export interface Client extends Subscriber {
  readonly state: ConnectionState;
  /** `host:port` of the client, and of the gateway's end. */
  readonly address: string;
  readonly localAddress: string;
  /** Milliseconds since 1970. */
  readonly connectedAt: number;
  readonly activeAt: number;
  /** Bytes of waiting input, and of unsent output. */
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly protocol: 2 | 3;
  /** Ends the connection after sending what has been written, unless the client does not read. */
  kill(): void;
}

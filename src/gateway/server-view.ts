import type { ClientMemory } from './connections/client-memory.ts';
import type { ConnectionState } from './connections/connection-state.ts';
import type { Pause } from './connections/pause.ts';
import type { Databases } from './databases.ts';
import type { Gate } from './gate.ts';
import type { GatewayPool } from './gateway-store.ts';
import type { GatewayLimits } from './limits.ts';
import type { Channels, Subscriber } from './messages/channels.ts';
import type { MessageBus } from './messages/message-bus.ts';
import type { Monitors } from './observation/monitors.ts';
import type { SlowLog } from './observation/slow-log.ts';
import type { Passwords } from './passwords.ts';
import type { Settings } from './settings.ts';

/** What commands see of the server, and what some of them change. */
export interface ServerView {
  readonly host: string;
  readonly port: number;
  readonly limits: GatewayLimits;
  /** What CONFIG SET changes. */
  readonly settings: Settings;
  /** Counts the memory of all connections. */
  readonly memory: ClientMemory;
  readonly clients: ReadonlyMap<number, Client>;
  readonly databases: Databases;
  /** Runs what calls their stores. */
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

/** Counters since the server began, or since CONFIG RESETSTAT. */
export interface Totals {
  connections: number;
  rejectedConnections: number;
  evictedConnections: number;
  commands: number;
  errors: number;
  bytesIn: number;
  bytesOut: number;
  hits: number;
  misses: number;
}

/** A connection, as commands of other connections see it. */
export interface Client extends Subscriber {
  readonly state: ConnectionState;
  /** `host:port` of the client, and of the gateway's end. */
  readonly address: string;
  readonly localAddress: string;
  /** Milliseconds since 1970. */
  readonly connectedAt: number;
  readonly activeAt: number;
  /** Bytes of input that wait, and of output. */
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly protocol: 2 | 3;
  /** Ends it: what has been written is sent, unless the client does not read. */
  kill(): void;
}

import { NotificationFlags } from './messages/notifications.ts';

/** When to close a client that does not read its messages. 0 means no limit. */
export interface OutputLimit {
  readonly hardBytes: number;
  readonly softBytes: number;
  /** How long its unread output may exceed `softBytes`. */
  readonly softSeconds: number;
}

const MEBIBYTE = 1024 * 1024;

/** Bounds on the memory that clients can make the gateway use. */
export interface GatewayLimits {
  /**
   * Longest request in bytes, framing included; longer ones end their connection before they are
   * buffered. The default holds the longest value (64 MiB) with its key.
   */
  readonly requestBytesMax: number;
  /** Longest reply buffered before it is sent (SW.RANGE, KEYS); a longer one is an error. */
  readonly replyBytesMax: number;
  /** Total bytes of unfinished requests and unread replies, over all connections. */
  readonly clientBytesMax: number;
}

export const GATEWAY_LIMITS: GatewayLimits = {
  requestBytesMax: 66 * MEBIBYTE,
  replyBytesMax: 64 * MEBIBYTE,
  clientBytesMax: 256 * MEBIBYTE,
};

/**
 * With this much unsent output, a connection neither reads nor runs requests until its client has
 * read some. A reply that is produced in parts waits too.
 */
export const OUTPUT_BYTES_MAX = MEBIBYTE;

/** The parameters that CONFIG SET changes. */
export class Settings {
  maxConnections: number;
  /** How long a client may be idle before it is closed; 0 for no limit. */
  timeoutSeconds = 0;
  slowerThanMicroseconds = 10_000;
  slowLogLength = 128;
  /**
   * For subscribers and monitors. Other clients are not closed: the gateway stops serving them
   * until they have read their replies.
   */
  pubsubOutput: OutputLimit = {
    hardBytes: 32 * MEBIBYTE,
    softBytes: 8 * MEBIBYTE,
    softSeconds: 60,
  };
  notifications = new NotificationFlags('');

  constructor(maxConnections: number) {
    this.maxConnections = maxConnections;
  }
}

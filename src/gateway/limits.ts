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

const MEBIBYTE = 1024 * 1024;

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

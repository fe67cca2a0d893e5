/** Bounds on the memory that clients can make the gateway use. */
export interface GatewayLimits {
  /**
   * Longest request in bytes, framing included; longer ones end their connection before they are
   * buffered. The default holds the longest value (64 MiB) with its key.
   */
  readonly requestBytesMax: number;
  /** Longest reply that is gathered before it is sent (SW.RANGE, KEYS); beyond it is an error. */
  readonly replyBytesMax: number;
  /** What all connections may hold together, unfinished requests and unread replies. */
  readonly clientBytesMax: number;
}

const MEBIBYTE = 1024 * 1024;

export const GATEWAY_LIMITS: GatewayLimits = {
  requestBytesMax: 66 * MEBIBYTE,
  replyBytesMax: 64 * MEBIBYTE,
  clientBytesMax: 256 * MEBIBYTE,
};

/**
 * With this much output, a connection neither reads nor runs requests until its client has read,
 * and a reply that is made part by part waits.
 */
export const OUTPUT_BYTES_MAX = MEBIBYTE;

import { NotificationFlags } from './messages/notifications.ts';

/** From when on a client that does not read messages is closed. 0 is for no limit. */
export interface OutputLimit {
  readonly hardBytes: number;
  readonly softBytes: number;
  /** How long it may be above `softBytes`. */
  readonly softSeconds: number;
}

const MEBIBYTE = 1024 * 1024;

/** What CONFIG SET changes while the server runs. */
export class Settings {
  maxConnections: number;
  /** Idle clients are closed after so long; 0 for never. */
  timeoutSeconds = 0;
  slowerThanMicroseconds = 10_000;
  slowLogLength = 128;
  /**
   * For subscribers and monitors. Others are not closed: they are not served on while what they
   * have asked for waits for them.
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

import { isIPv4 } from 'node:net';

export interface Endpoint {
  host: string;
  port: number;
}

/** As URLs have it: an IPv6 address stands in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Whether an address to listen on is reached from this machine alone. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

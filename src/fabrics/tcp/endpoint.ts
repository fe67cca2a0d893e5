export interface Endpoint {
  host: string;
  port: number;
}

/** As URLs have it: an IPv6 address stands in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

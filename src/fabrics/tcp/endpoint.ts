import { once } from 'node:events';
import { type AddressInfo, isIPv4, type Server } from 'node:net';
import { StepwellError } from '../../errors.ts';

export interface Endpoint {
  host: string;
  port: number;
}

/** The host as in a URL: an IPv6 address in brackets. */
export function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

/** Whether only this machine reaches an address to listen on. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));
}

/** Returns where the server listens. Raises SW_ADDRESS_IN_USE, or SW_INVALID_ARGUMENT. */
export async function listenOn(server: Server, { host, port }: Endpoint): Promise<AddressInfo> {
  server.listen({ host, port });
  try {
    await once(server, 'listening');
    return server.address() as AddressInfo;
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const where = `${host}:${port}`;
    if (code !== 'EADDRINUSE') {
      const why = `cannot listen on ${where}: ${message}`;
      throw new StepwellError('SW_INVALID_ARGUMENT', why, { cause });
    }
    const why = `another server already listens on ${where}`;
    throw new StepwellError('SW_ADDRESS_IN_USE', why, { cause });
  }
}

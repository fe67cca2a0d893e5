import { readFileSync } from 'node:fs';
import type { OpenOptions } from '../store/api.ts';
import { parseEndpoint } from '../store/remote/address.ts';
import { UsageError } from './failures.ts';
import { parseCount, parseSize } from './sizes.ts';

/** Options that several commands share. */
export const STORE_OPTION = {
  store: { value: 'NAME', about: 'The store inside the pool, if it is not `default`' },
} as const;

export const TLS_OPTIONS = {
  'tls-cert': { value: 'PATH', about: 'Listen with TLS: the certificate, in PEM' },
  'tls-key': { value: 'PATH', about: 'Its key, in PEM' },
} as const;

export const POOL_OPTIONS = {
  size: { value: 'SIZE', read: parseSize, about: 'Upper bound of the pool, e.g. 512m or 4g' },
  'region-size': {
    value: 'SIZE',
    read: parseSize,
    about: 'Steps in which the pool grows, up to 2g',
  },
  'max-clients': {
    value: 'N',
    read: parseCount(1, 65_536),
    about: 'How many clients can be attached at once',
  },
} as const;

export function poolOptions(options: {
  size: number | undefined;
  'region-size': number | undefined;
  'max-clients'?: number | undefined;
}): Pick<OpenOptions, 'size' | 'regionSize' | 'maxClients'> {
  const { size, 'region-size': regionSize, 'max-clients': maxClients } = options;
  return { size, regionSize, maxClients };
}

/** The store to open, and the name of this client in `inspect`. */
export function storeNamed(
  command: string,
  store: string | undefined,
): Pick<OpenOptions, 'store' | 'client'> {
  return { store, client: `stepwell ${command}` };
}

/** Reads an address to listen on. Unlike in a URL, port 0 is allowed: any free port. */
export function listenPlace(listen: string): { host: string; port: number } {
  try {
    if (listen.endsWith(':0')) return { ...parseEndpoint(listen.slice(0, -2)), port: 0 };
    return parseEndpoint(listen);
  } catch {
    throw new UsageError(`'${listen}' is not HOST:PORT, such as 127.0.0.1:7471`);
  }
}

/** Reads the files of `--tls-cert` and `--tls-key`. */
export function tlsFrom(
  cert: string | undefined,
  key: string | undefined,
): { cert: string; key: string } | undefined {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    const both = '--tls-cert cert.pem --tls-key key.pem';
    throw new UsageError(`--tls-cert and --tls-key belong together, such as ${both}`);
  }
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
}

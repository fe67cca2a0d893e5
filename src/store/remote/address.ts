import { readFileSync } from 'node:fs';
import { StepwellError } from '../../errors.ts';
import type { Credentials } from '../../fabrics/tcp/client/queue-pair.ts';
import type { Endpoint } from '../../fabrics/tcp/endpoint.ts';
import type { OpenOptions } from '../api.ts';
import { invalid } from '../arguments.ts';

export const DEFAULT_NODE_PORT = 7471;
const NODES_MAX = 64;
const SECRET_BYTES_MAX = 4096;

/** Where a pool over the network is: `tcp://host:port,host:port/store`, `tls://…`, `ucx://…`. */
export interface RemoteLocation {
  endpoints: Endpoint[];
  /** How verbs reach the nodes. */
  fabric: 'tcp' | 'ucx';
  tls: boolean;
  store: string | undefined;
  /** The URL without the store. */
  url: string;
}

export function isRemote(url: unknown): url is string {
  return typeof url === 'string' && /^(tcp|tls|ucx):/.test(url);
}

/** Raises SW_INVALID_URL. */
export function parseRemote(url: string): RemoteLocation {
  const [, scheme, hosts, store] = /^(tcp|tls|ucx):\/\/([^/]+)(?:\/(.*))?$/s.exec(url) ?? [];
  if (hosts === undefined) throw notRemote(url);
  const endpoints = hosts.split(',').map((text) => parseEndpoint(text, url));
  const places = new Set(endpoints.map(({ host, port }) => `${host.toLowerCase()} ${port}`));
  if (places.size < endpoints.length) {
    throw new StepwellError('SW_INVALID_URL', `a memory node comes twice in ${url}`);
  }
  if (endpoints.length > NODES_MAX) {
    throw new StepwellError('SW_INVALID_URL', `a pool has at most ${NODES_MAX} memory nodes`);
  }
  const name = store === undefined || store === '' ? undefined : decodeName(store, url);
  const fabric = scheme === 'ucx' ? 'ucx' : 'tcp';
  return { endpoints, fabric, tls: scheme === 'tls', store: name, url: `${scheme}://${hosts}` };
}

/** `host`, `host:port` or `[address]:port`. */
export function parseEndpoint(text: string, url = text): Endpoint {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]\s/]+))(?::(\d{1,5}))?$/.exec(text);
  const port = Number(match?.[3] ?? DEFAULT_NODE_PORT);
  if (match === null || port < 1 || port > 65_535) throw notRemote(url);
  return { host: match[1] ?? match[2], port };
}

function decodeName(text: string, url: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new StepwellError('SW_INVALID_URL', `the store in ${url} is not well-formed`, { cause });
  }
}

function notRemote(url: string): StepwellError {
  return new StepwellError(
    'SW_INVALID_URL',
    `not a pool URL: ${JSON.stringify(url)} (use tcp://HOST:PORT[,HOST:PORT…][/STORE])`,
  );
}

/** The credentials in the options and the environment. */
export function credentialsOf({ tls }: RemoteLocation, options: OpenOptions): Credentials {
  const { timeoutMs } = options;
  if (options.tls !== undefined && (typeof options.tls !== 'object' || options.tls === null)) {
    throw invalid('tls has options of node:tls');
  }
  if (timeoutMs !== undefined && !(Number.isFinite(timeoutMs) && timeoutMs >= 1)) {
    throw invalid(`timeoutMs is a positive number: ${timeoutMs}`);
  }
  return {
    secret: secretFrom(options.secret, process.env),
    tls: options.tls ?? tls,
    name: options.client,
    timeoutMs,
  };
}

/**
 * The given secret, or the one in the given file. Without either: STEPWELL_SECRET, or the contents
 * of the file that STEPWELL_SECRET_FILE names.
 */
export function secretFrom(
  given: string | Uint8Array | undefined,
  environment: NodeJS.ProcessEnv,
  givenFile?: string,
): Uint8Array | undefined {
  if (given !== undefined) return checkSecret(bytesOf(given));
  if (givenFile !== undefined) return checkSecret(readSecret(givenFile));
  const { STEPWELL_SECRET: text, STEPWELL_SECRET_FILE: file } = environment;
  if (text !== undefined && text !== '') return checkSecret(Buffer.from(text));
  if (file === undefined || file === '') return undefined;
  return checkSecret(readSecret(file));
}

function bytesOf(secret: string | Uint8Array): Uint8Array {
  if (typeof secret === 'string' || secret instanceof Uint8Array) return Buffer.from(secret);
  throw invalid('a secret is text or bytes');
}

function readSecret(file: string): Uint8Array {
  try {
    return Buffer.from(readFileSync(file, 'utf8').trim());
  } catch (cause) {
    throw invalid(`cannot read the secret in ${file}`, { cause });
  }
}

function checkSecret(secret: Uint8Array): Uint8Array {
  if (secret.length > 0 && secret.length <= SECRET_BYTES_MAX) return secret;
  throw invalid(`a secret has 1..${SECRET_BYTES_MAX} bytes`);
}

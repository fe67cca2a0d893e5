import type { IncomingMessage } from 'node:http';
import { urlHost } from '../fabrics/tcp/endpoint.ts';
import type { Passwords } from '../gateway/passwords.ts';

/** Why a request is not answered. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

const LOCAL_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/** By what requests are checked. */
export interface Access {
  /** The address that the server listens on. */
  readonly host: string;
  readonly passwords: Passwords | undefined;
}

/**
 * Raises a Refusal for a request that does not come from the page itself.
 *
 * - Another site may point its name at this machine (DNS rebinding). Without passwords, the name in
 *   the request must therefore be one of this machine. With passwords, such a site gets no further,
 *   because browsers store passwords by name.
 * - Cross-origin requests of other sites, which browsers mark, are refused.
 */
export function refuse(request: IncomingMessage, { host, passwords }: Access): void {
  const { method, headers } = request;
  if (method !== 'GET' && method !== 'HEAD') {
    throw new Refusal(405, 'this page only reads', { allow: 'GET, HEAD' });
  }
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
    throw new Refusal(413, 'a request has no body here', { connection: 'close' });
  }
  const name = nameIn(headers.host);
  const isOurs = passwords !== undefined || [...LOCAL_NAMES, urlHost(host)].includes(name);
  if (!isOurs) throw new Refusal(421, `this server is not ${name || 'without a name'}`);
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== 'same-origin' && site !== 'none') {
    throw new Refusal(403, 'another site asked');
  }
  if (passwords !== undefined && !isLetIn(headers.authorization, passwords)) {
    throw new Refusal(401, 'a password is asked for', {
      'www-authenticate': 'Basic realm="stepwell", charset="UTF-8"',
    });
  }
}

/** Ignores the port, because a tunnel may have another one. */
function nameIn(host: string | undefined): string {
  return (host ?? '').replace(/:\d*$/, '').toLowerCase();
}

function isLetIn(authorization: string | undefined, passwords: Passwords): boolean {
  const [, encoded] = /^Basic ([A-Za-z0-9+/=]+)$/i.exec(authorization ?? '') ?? [];
  if (encoded === undefined) return false;
  const text = Buffer.from(encoded, 'base64').toString('utf8');
  const colon = text.indexOf(':');
  const user = colon <= 0 ? 'default' : text.slice(0, colon);
  return passwords.allows(user, Buffer.from(text.slice(colon + 1)));
}

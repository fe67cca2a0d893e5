import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Express } from 'express';
import type { Scope } from '../../../store/tests/support/pools.ts';

/** The application's address on this machine, until the test ends. */
export async function serving(scope: Scope, app: Express): Promise<string> {
  const server = app.listen(0, '127.0.0.1');
  scope.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

import { createClient, RESP_TYPES } from 'redis';
import type { PeerSettings } from '../protocol.ts';
import type { AsyncPeer } from './peer.ts';

/** node-redis over a loopback socket. Calls made in one turn of the event loop are one pipeline. */
export async function openRedisPeer(settings: PeerSettings): Promise<AsyncPeer> {
  const client = createClient({
    socket: { host: '127.0.0.1', port: Number(settings.place), reconnectStrategy: false },
  });
  // Without a listener an error event would end the process; the failing call reports it anyway.
  client.on('error', () => {});
  await client.connect();
  const binary = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  return {
    kind: 'async',
    get: (key) => binary.get(key),
    set: (key, value) => binary.set(key, value),
    close: async () => {
      await client.close();
    },
  };
}

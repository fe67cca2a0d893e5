/** An index server of an HStore store, like `stepwell index-server`. */
import type { ServerRole } from '../../src/indexes/hstore/index-server.ts';
import { openIndexServer, serveIndex } from '../../src/store/servers/index-server.ts';

const [url, store, role] = process.argv.slice(2);
const ending = new AbortController();
process.on('SIGTERM', () => ending.abort());
process.on('disconnect', () => process.exit());
const server = await openIndexServer(url, { store, role: role as ServerRole });
await serveIndex(server, ending.signal, (held) => {
  if (held > 0) process.send?.(held);
});
await server.close();
process.exit();

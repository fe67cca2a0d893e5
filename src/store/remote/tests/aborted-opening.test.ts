import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { open } from '../../open.ts';
import { rejectsCode } from '../../tests/support/codes.ts';

test('an opening that waits is aborted', async (t) => {
  // It accepts connections and says nothing.
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.after(() => {
    silent.close();
  });
  const address = silent.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const aborting = new AbortController();
  const { signal } = aborting;
  const opening = open(`tcp://127.0.0.1:${port}`, { signal, timeoutMs: 500 });
  const refused = assert.rejects(opening, { code: 'SW_ABORTED', cause: 'enough' });
  aborting.abort('enough');
  await refused;
  await rejectsCode('SW_ABORTED', () => open('memory:', { signal }));
  await rejectsCode('SW_INVALID_ARGUMENT', () => open('memory:', { signal: 'now' as never }));
  const store = await open('memory:', { signal: new AbortController().signal });
  await store.close();
});

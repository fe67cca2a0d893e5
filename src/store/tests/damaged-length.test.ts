import assert from 'node:assert/strict';
import { closeSync, openSync as openFile, readFileSync, writeSync } from 'node:fs';
import { test } from 'node:test';
import { VALUE_BYTES } from '../../records/layout.ts';
import { openSync } from '../open.ts';
import { codeOf } from './support/codes.ts';
import { freshUrl, keepOpen, pathOf } from './support/pools.ts';

/**
 * A record whose length is damaged cannot be retired, for that would free another block. Who learns
 * so has linked the new record already, whose block must not be given back for that.
 */
for (const index of ['chime', 'hopscotch', 'race', 'shard', 'sephash'] as const) {
  for (const write of ['set', 'update'] as const) {
    test(`${index}: ${write} over a record whose length is damaged keeps the new record`, (t) => {
      const url = freshUrl(t, 'file');
      const store = keepOpen(t, openSync(url, { size: 16 * 2 ** 20, maxClients: 8, index }));
      const key = 'sixteen-byte-key';
      store.set(key, 'w'.repeat(40));
      const start = readFileSync(pathOf(url)).indexOf(`${key}www`) - 16;
      assert.ok(start > 0);
      const file = openFile(pathOf(url), 'r+');
      writeSync(file, Uint8Array.of(40 + 128), 0, 1, start + VALUE_BYTES);
      closeSync(file);
      const code = codeOf(() => {
        if (write === 'set') store.set(key, 'new value');
        else store.update(key, 'new value');
      });
      assert.ok(code === 'SW_RECORD_CORRUPT' || code.startsWith('returned'), code);
      // They would take the block that was given back.
      for (let i = 0; i < 20; i++) store.set(`other ${i}`, `other value ${i}`);
      assert.equal(store.get(key), 'new value');
      for (let i = 0; i < 20; i++) assert.equal(store.get(`other ${i}`), `other value ${i}`);
    });
  }
}

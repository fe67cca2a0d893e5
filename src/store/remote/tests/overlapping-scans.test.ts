import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Key } from '../../api.ts';
import { open } from '../../open.ts';
import { startNodes } from '../../tests/support/remote.ts';

const RECORDS = 600;

/** Scans of one store keep their decoding buffers for each other. */
for (const format of ['bytes', 'utf8', 'auto'] as const) {
  test(`scans of one store that overlap mix nothing up: ${format}`, async (t) => {
    const { url } = await startNodes(t, 1, { bytes: 16 * 2 ** 20 });
    const formats = { keys: format, values: format };
    const store = await open(url, { store: 's', index: 'chime', ...formats });
    t.after(() => store.close());
    const content = (text: string) =>
      format === 'bytes' ? new Uint8Array(Buffer.from(text)) : text;
    const entries = Array.from({ length: RECORDS }, (_, i) => {
      const key = content(`key ${String(i).padStart(4, '0')}`);
      return [key, content(`value ${i} ${'x'.repeat(i % 50)}`)] as const;
    });
    await store.setMany(entries);
    const wanted = { keys: entries.map(([key]) => key), values: entries.map(([, value]) => value) };
    const all = { limit: RECORDS };

    // Left half read, while others begin and end.
    const halves = [store.scan(all), store.scan(all)];
    const begun = await Promise.all(halves.map((scan, i) => scan.nextMany(100 + 7 * i)));
    const within: unknown[] = [];
    const around: Key[] = [];
    for await (const key of store.keys({ prefix: content('key 00') })) {
      around.push(key);
      const [first] = await store.scan({ gte: key, limit: 1 }).nextMany(1);
      within.push(first);
    }
    const together = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        if (i % 3 === 0) return await store.keys(all).nextMany(RECORDS);
        if (i % 3 === 1) return await store.values(all).nextMany(RECORDS);
        return await store.scan(all).nextMany(RECORDS);
      }),
    );
    const rests = await Promise.all(halves.map((scan) => scan.nextMany(RECORDS)));

    assert.deepEqual(around, wanted.keys.slice(0, 100));
    assert.deepEqual(within, entries.slice(0, 100));
    for (const [i, found] of together.entries()) {
      assert.deepEqual(found, [wanted.keys, wanted.values, entries][i % 3]);
    }
    for (const [i, first] of begun.entries()) {
      assert.deepEqual([...first, ...rests[i]], entries);
    }
  });
}

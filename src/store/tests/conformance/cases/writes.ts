import assert from 'node:assert/strict';
import { rejectsCode } from '../../support/codes.ts';
import { collect, type Suite } from './suite.ts';

export function writeCases({ check, manifest }: Suite): void {
  check('get, getEntry, has of an absent key', async ({ s }) => {
    assert.equal(await s.get('k'), undefined);
    assert.equal(await s.getEntry('k'), undefined);
    assert.equal(await s.has('k'), false);
  });

  check('put, insert, update, delete, take say what they did', async ({ s }) => {
    assert.equal(await s.update('k', 'no'), false);
    assert.equal(await s.has('k'), false);
    assert.equal(await s.insert('k', 'a'), true);
    assert.equal(await s.insert('k', 'no'), false);
    assert.equal(await s.get('k'), 'a');
    assert.equal(await s.update('k', 'b'), true);
    assert.equal(await s.get('k'), 'b');
    assert.equal(await s.set('k', 'c'), undefined);
    assert.equal(await s.get('k'), 'c');
    assert.equal(await s.take('k'), 'c');
    assert.equal(await s.take('k'), undefined);
    assert.equal(await s.delete('k'), false);
    assert.equal(await s.set('k', 'd'), undefined);
    assert.equal(await s.delete('k'), true);
    assert.equal(await s.has('k'), false);
  });

  check('write with each condition, with and without the previous value', async ({ s }) => {
    const none = { written: true, previous: undefined };
    const refused = { written: false, previous: undefined };
    assert.deepEqual(await s.write('k', '0', { when: 'present', previous: true }), refused);
    assert.deepEqual(await s.write('k', '1'), none);
    assert.deepEqual(await s.write('k', '2'), none);
    assert.deepEqual(await s.write('k', '3', { previous: true }), { written: true, previous: '2' });
    assert.deepEqual(await s.write('k', '4', { when: 'present' }), none);
    const again = await s.write('k', '5', { when: 'present', previous: true });
    assert.deepEqual(again, { written: true, previous: '4' });
    assert.deepEqual(await s.write('k', '6', { when: 'absent' }), refused);
    const absent = await s.write('k', '7', { when: 'absent', previous: true });
    assert.deepEqual(absent, { written: false, previous: '5' });
    assert.equal(await s.get('k'), '5');
    assert.deepEqual(await s.write('n', '8', { when: 'absent', previous: true }), none);
    assert.deepEqual(await s.write('m', '9', { when: 'always', previous: true }), none);
    await rejectsCode('SW_INVALID_ARGUMENT', () =>
      s.write('k', 'x', { when: 'never' as 'absent' }),
    );
    await rejectsCode('SW_INVALID_ARGUMENT', () =>
      s.write('k', 'x', { when: 'toString' as 'absent' }),
    );
    assert.equal(await s.get('k'), '5');
  });

  check('options and callbacks that are none are refused with a code', async ({ s }) => {
    await s.set('k', 'v');
    for (const wrong of [null, 5, 'absent', [], new Map(), Symbol('x')]) {
      const text = String(wrong);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.write('k', 'no', wrong as object), text);
      await rejectsCode('SW_INVALID_ARGUMENT', () => s.scanKeys(0, 10, wrong as object), text);
      await rejectsCode(
        'SW_INVALID_ARGUMENT',
        () => s.read('k', wrong as unknown as () => 0),
        text,
      );
      await rejectsCode(
        'SW_INVALID_ARGUMENT',
        () => s.read('absent', wrong as unknown as () => 0),
        text,
      );
    }
    const when = Symbol('x') as unknown as 'always';
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.write('k', 'no', { when }));
    const previous = 'yes' as unknown as true;
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.write('k', 'no', { previous }));
    assert.equal(await s.get('k'), 'v');
  });

  check('every write gives the record another version', async ({ s }) => {
    const seen = new Set<number>();
    const note = async () => {
      const entry = await s.getEntry('k');
      assert.ok(entry);
      assert.equal(entry.key, 'k');
      assert.ok(Number.isInteger(entry.version));
      assert.ok(entry.version >= 0 && entry.version < 2 ** 32);
      assert.ok(!seen.has(entry.version), 'a version came twice');
      seen.add(entry.version);
      assert.equal((await s.getEntry('k'))?.version, entry.version, 'reading changes no version');
    };
    const writes: (() => Promise<unknown>)[] = [
      () => s.set('k', '1'),
      () => s.set('k', '1'),
      () => s.update('k', '1'),
      () => s.write('k', '1'),
      () => s.increment('k'),
      () => s.setMany([['k', '1']]),
      async () => s.compareAndSet('k', (await s.getEntry('k'))?.version ?? 0, '1'),
      () => s.set('k', 'x'.repeat(40_000)),
      () => s.set('k', 'y'.repeat(40_000)),
    ];
    for (const write of [...writes, ...writes]) {
      await write();
      await note();
      if (seen.size % 4 === 0) await s.delete('k');
      if (seen.size % 8 === 0) await s.insert('k', '1').then(note);
      else await s.set('k', '1').then(note);
    }
  });

  check('compareAndSet stores under the version only', async ({ s }) => {
    assert.equal(await s.compareAndSet('k', 0, 'v'), undefined);
    assert.equal(await s.has('k'), false);
    await s.set('k', 'a');
    const first = (await s.getEntry('k'))?.version ?? Number.NaN;
    const second = await s.compareAndSet('k', first, 'b');
    assert.ok(second !== undefined);
    assert.deepEqual(await s.getEntry('k'), { key: 'k', value: 'b', version: second });
    assert.equal(await s.compareAndSet('k', first, 'c'), undefined);
    const long = 'l'.repeat(50_000);
    const third = await s.compareAndSet('k', second, long);
    assert.deepEqual(await s.getEntry('k'), { key: 'k', value: long, version: third });
    for (const version of [-1, 0.5, Number.NaN, 2 ** 32 + (third ?? 0), undefined, '1', null]) {
      assert.equal(await s.compareAndSet('k', version as number, 'no'), undefined);
    }
    assert.equal(await s.get('k'), long);
  });

  check('compareAndSet fails after the key was deleted and inserted again', async ({ s }) => {
    await s.set('k', 'a');
    const version = (await s.getEntry('k'))?.version ?? Number.NaN;
    await s.delete('k');
    assert.equal(await s.compareAndSet('k', version, 'no'), undefined);
    assert.equal(await s.has('k'), false);
    for (let i = 0; i < 50; i++) {
      await s.insert('k', 'a');
      assert.equal(await s.compareAndSet('k', version, 'no'), undefined);
      await s.take('k');
    }
  });

  check('compareAndDelete removes the record of the version only', async ({ s }) => {
    const versionOf = async () => (await s.getEntry('k'))?.version ?? Number.NaN;
    assert.equal(await s.compareAndDelete('k', 0), false);
    for (const value of ['a', 'l'.repeat(50_000)]) {
      await s.set('k', value);
      const first = await versionOf();
      await s.set('k', value);
      const second = await versionOf();
      for (const stale of [first, second + 1, -1, 0.5, Number.NaN, 2 ** 32 + second]) {
        assert.equal(await s.compareAndDelete('k', stale), false);
      }
      for (const none of [undefined, null, String(second)]) {
        assert.equal(await s.compareAndDelete('k', none as unknown as number), false);
      }
      assert.equal(await s.get('k'), value);
      assert.equal(await s.compareAndDelete('k', second), true);
      assert.equal(await s.has('k'), false);
      assert.equal(await s.compareAndDelete('k', second), false);
    }
  });

  check('compareAndDelete spares what was inserted after a deletion', async ({ s, attach }) => {
    const other = attach();
    await s.set('k', 'a');
    const version = (await s.getEntry('k'))?.version ?? Number.NaN;
    for (let i = 0; i < 50; i++) {
      await other.take('k');
      assert.equal(await s.compareAndDelete('k', version), false);
      await other.insert('k', 'a');
      assert.equal(await s.compareAndDelete('k', version), false);
      assert.equal(await s.get('k'), 'a');
    }
  });

  check('compareAndSet reaches the largest version and goes on', async ({ s }) => {
    await s.set('k', '0');
    let version = (await s.getEntry('k'))?.version ?? Number.NaN;
    for (let i = 1; i <= 200; i++) {
      const next = await s.compareAndSet('k', version, String(i));
      assert.ok(next !== undefined && next !== version);
      version = next;
    }
    assert.equal(await s.get('k'), '200');
  });

  check('swap returns what it replaced', async ({ s }) => {
    assert.equal(await s.swap('k', 'one'), undefined);
    assert.equal(await s.swap('k', Uint8Array.of(2)), 'one');
    assert.deepEqual(await s.swap('k', 'three'), Uint8Array.of(2));
    assert.equal(await s.get('k'), 'three');
    await rejectsCode('SW_INVALID_VALUE', () => s.swap('k', 7 as never));
    await rejectsCode('SW_INVALID_ARGUMENT', () => s.swap('k', 'v', { ttl: 1 } as never));
  });

  check('append puts text and bytes behind one another', async ({ s }) => {
    assert.equal(await s.append('k', 'läng'), 5);
    assert.equal(await s.append('k', '\u{1f600}'), 9);
    assert.equal(await s.get('k'), 'läng\u{1f600}');
    assert.equal(await s.append('k', Uint8Array.of(0, 255)), 11);
    const bytes = Buffer.concat([Buffer.from('läng\u{1f600}'), Buffer.of(0, 255)]);
    assert.deepEqual(await s.get('k'), new Uint8Array(bytes));
    assert.equal(await s.append('empty', ''), 0);
    assert.equal(await s.get('empty'), '');
    // Into further blocks, with a key that is long, too.
    const key = 'k'.repeat(300);
    for (let i = 1; i <= 9; i++) assert.equal(await s.append(key, 'x'.repeat(9000)), 9000 * i);
    assert.equal(await s.get(key), 'x'.repeat(81_000));
    await rejectsCode('SW_INVALID_VALUE', () => s.append('k', 7 as never));
    await rejectsCode('SW_INVALID_VALUE', () => s.append('k', '\ud800'));
    await rejectsCode('SW_INVALID_KEY', () => s.append('x'.repeat(65_536), 'v'));
  });

  check('appends of several clients are all there', async ({ s, attach }) => {
    const other = attach();
    const parts = Array.from({ length: 30 }, (_, i) => `${i}.`);
    await Promise.all(parts.map((part, i) => (i % 2 === 0 ? s : other).append('k', part)));
    const found = String(await s.get('k'))
      .split('.')
      .slice(0, -1);
    assert.deepEqual(found.sort(), parts.map((part) => part.slice(0, -1)).sort());
  });

  check('what helpers keep is changed atomically, and hidden from walks', async ({ s, attach }) => {
    const other = attach();
    const add = (state: unknown) => ({ result: Number(state ?? 0), next: Number(state ?? 0) + 1 });
    const found = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? s : other).changeState('sum', add)),
    );
    assert.deepEqual(
      found.sort((a, b) => a - b),
      Array.from({ length: 20 }, (_, i) => i),
    );
    const look = (state: unknown) => ({ result: state });
    assert.equal(await other.changeState('sum', look), 20);
    await s.changeState('long', () => ({ result: 0, next: 'x'.repeat(50_000) }));
    assert.equal(await other.changeState('long', look), 'x'.repeat(50_000));
    await s.set('k', 'v');
    assert.deepEqual(await collect(s.keys()), ['k']);
    assert.deepEqual((await s.scanPage(0, 10_000)).entries.length, 1);
    assert.deepEqual((await s.scanKeys(0, 10_000)).keys.length, 1);
    if (manifest.ordered) assert.deepEqual(await collect(s.keys({ limit: 1 })), ['k']);
    const gone = () => ({ result: undefined, next: null });
    await s.changeState('sum', gone);
    await s.changeState('never there', gone);
    assert.equal(await other.changeState('sum', look), undefined);
    await s.clear();
    assert.equal(await s.changeState('long', (state) => ({ result: typeof state })), 'string');
  });
}

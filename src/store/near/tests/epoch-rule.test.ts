import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ALWAYS } from '../../../indexes/contract.ts';
import { type Address, NULL_ADDRESS } from '../../../verbs/index.ts';
import { type ByHand, clientByHand, foundText, requestFor } from '../../tests/support/by-hand.ts';
import type { Scope } from '../../tests/support/pools.ts';
import { NearReads, type NearSection, UNPROVEN } from '../near-reads.ts';

const SETTINGS = { maxEntries: 10, maxBytes: Number.POSITIVE_INFINITY, freeze: false };

/** Announces the pool's epoch. */
function announce({ pool }: ByHand): number {
  pool.run(pool.reclamation.quiesce());
  return pool.reclamation.announced;
}

/** Announces the pool's epoch, then moves it on as far as other clients allow. */
function moveOn(client: ByHand): number {
  announce(client);
  client.pool.run(client.pool.reclamation.collect());
  return client.pool.reclamation.announced;
}

/** Has the client take this block next. */
function claimAgain({ pool, index }: ByHand, block: Address, units: number): void {
  const sizeClass = pool.allocator.sizeClass(index.records.catalog, units);
  while (!sizeClass.cache.includes(block)) {
    if (sizeClass.take() === NULL_ADDRESS) pool.run(pool.allocator.refill(sizeClass));
  }
  sizeClass.cache.splice(sizeClass.cache.indexOf(block), 1);
  sizeClass.cache.push(block);
}

/**
 * A reader that is one epoch ahead keeps a value. The writer, still in the epoch before, removes
 * the record. When the reader has announced its next epoch, the writer has the block again: no
 * earlier moment is possible. It puts another value of the key there, so the slot's word is what it
 * was. Returns what a near read says then.
 */
function readAfterReuse(t: Scope, sectionOf: (section: NearSection) => NearSection): unknown {
  const writer = clientByHand(t);
  const reader = clientByHand(t, { handle: writer.handle });
  const put = (client: ByHand, key: string, value: string) => {
    const request = requestFor(client, key, value);
    client.pool.run(client.index.write(request, ALWAYS));
    return request.record;
  };
  const { written, headUnits } = put(writer, 'k', 'old');
  const first = announce(writer);
  // A client moves the epoch on for blocks of its own.
  for (const value of ['one', 'two']) put(reader, 'other', value);
  assert.equal(moveOn(reader), first + 1, 'the reader is an epoch ahead');

  const { pool, index } = reader;
  const section: NearSection = {
    pool,
    inPlace: undefined,
    *enter() {
      yield* [];
    },
    exit() {},
  };
  const near = new NearReads(sectionOf(section), index, SETTINGS, { values: 'utf8' });
  const request = requestFor(reader, 'k');
  assert.ok(pool.run(index.search(request)));
  for (let read = 0; read < 2; read++) near.keep('k', request, foundText(request));
  assert.equal(pool.run(near.read('k')), 'old');

  assert.ok(writer.pool.run(writer.index.remove(requestFor(writer, 'k'))));
  assert.equal(moveOn(writer), first + 2);
  assert.equal(announce(reader), first + 2);
  assert.equal(moveOn(writer), first + 3, 'the block is free');
  claimAgain(writer, written, headUnits);
  assert.equal(put(writer, 'k', 'new').written, written);
  return pool.run(near.read('k'));
}

test('in the next epoch a slot alone proves nothing: its block may be in use again', (t) => {
  assert.equal(
    readAfterReuse(t, (section) => section),
    UNPROVEN,
  );
});

test('if the slot alone counted for one epoch longer, an old value would be read', (t) => {
  const tooLong = (section: NearSection): NearSection => {
    const { clock, layout, meter, reclamation } = section.pool;
    let first = 0;
    const late = {
      get announced() {
        const { announced } = reclamation;
        first ||= announced;
        return announced <= first + 1 ? first : announced;
      },
    };
    return { ...section, pool: { clock, layout, meter, reclamation: late } as NearSection['pool'] };
  };
  assert.equal(readAfterReuse(t, tooLong), 'old');
});

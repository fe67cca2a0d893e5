import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NO_SLOT } from '../../../pool/intents/intent-slots.ts';
import { rounds } from '../../../random/tests/support/rounds.ts';
import { stopAfter } from '../../../store/tests/support/by-hand.ts';
import type { Operation } from '../../../verbs/index.ts';
import { ALWAYS } from '../../contract.ts';
import {
  areGoneFor,
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

/** Clients that die after every verb of what they do, and those that meet what they leave. */
const SHAPE = { span: 4, neighbourhood: 2, fanout: 2, inlineBytes: 24 };
const KEYS = Array.from({ length: 24 }, (_, i) => `key ${10 + ((i * 7) % 24)}`);

function insertion(client: Client, key: string, value = `${key} one`): Operation<number> {
  return client.index.write(requestFor(client, key, value), ALWAYS);
}

function textOf(client: Client, key: string): string | undefined {
  const request = requestFor(client, key);
  if (!client.pool.run(client.index.search(request))) return undefined;
  client.pool.run(client.index.records.complete(request));
  return foundText(request);
}

const textsOf = (client: Client) =>
  scanned(client, client.index.scan()).map(
    ([key, value]) => `${Buffer.from(key, 'hex')}: ${value}`,
  );

test('an inserter may die after any verb of a split: all of it happens, or nothing', (t) => {
  for (const last of [2, 9, 20, 5, 14].slice(0, rounds(3, 5))) {
    const seen = new Set<string>();
    for (let verbs = 0; ; verbs++) {
      const writer = clientOf(t, SHAPE);
      const [scanner, reader] = [0, 1].map(() => clientOf(t, SHAPE, writer.handle));
      const present = KEYS.slice(0, last);
      for (const key of present) writer.pool.run(insertion(writer, key));
      const done = stopAfter(writer, insertion(writer, KEYS[last]), verbs);
      for (const other of [scanner, reader]) areGoneFor(other, writer);
      const texts = textsOf(scanner);
      seen.add(JSON.stringify(texts));
      for (const key of present) assert.equal(textOf(reader, key), `${key} one`);
      for (const key of KEYS.slice(last)) reader.pool.run(insertion(reader, key));
      assert.deepEqual(checked(reader), { problems: [], records: KEYS.length }, `${verbs} verbs`);
      assert.equal(textsOf(scanner).length, KEYS.length);
      if (done < verbs) break;
    }
    assert.equal(seen.size, 2, 'before and after');
  }
});

test('a remover may die after any verb of a merge, and its repairer too', (t) => {
  for (const left of [1, 6, 3].slice(0, rounds(2, 3))) {
    const seen = new Set<string>();
    for (let verbs = 0; ; verbs++) {
      const remover = clientOf(t, SHAPE);
      const [repairer, scanner, reader] = [0, 1, 2].map(() => clientOf(t, SHAPE, remover.handle));
      for (const key of KEYS.slice(0, 12)) remover.pool.run(insertion(remover, key));
      for (const key of KEYS.slice(left + 1, 12)) {
        remover.pool.run(remover.index.remove(requestFor(remover, key)));
      }
      const merges = remover.index.tree.merges;
      const removal = remover.index.remove(requestFor(remover, KEYS[left]));
      const done = stopAfter(remover, removal, verbs);
      areGoneFor(repairer, remover);
      stopAfter(repairer, insertion(repairer, KEYS[0], 'two'), verbs % 31);
      for (const other of [scanner, reader]) areGoneFor(other, remover, repairer);
      const texts = textsOf(scanner);
      seen.add(JSON.stringify(texts));
      for (const key of KEYS.slice(1, left)) assert.equal(textOf(reader, key), `${key} one`);
      assert.match(textOf(reader, KEYS[0]) ?? '', /one|two/);
      for (const key of KEYS.slice(left)) reader.pool.run(insertion(reader, key));
      assert.deepEqual(checked(reader), { problems: [], records: KEYS.length }, `${verbs} verbs`);
      if (done < verbs) {
        assert.ok(remover.index.tree.merges >= merges);
        break;
      }
    }
    assert.ok(seen.size >= 2, 'before and after');
  }
});

test('a client may die after any verb of many removals from a leaf: all happen, or none', (t) => {
  for (const inlineBytes of [24, 0]) {
    const seen = new Set<string>();
    for (let verbs = 0; ; verbs++) {
      const remover = clientOf(t, { ...SHAPE, inlineBytes });
      const [scanner, reader] = [0, 1].map(() => clientOf(t, SHAPE, remover.handle));
      for (const key of KEYS.slice(0, 9)) remover.pool.run(insertion(remover, key));
      const { index } = remover;
      const own = requestFor(remover, KEYS[4]);
      const removal = index.removeBeside(own, index.newRequest(), () => true);
      const done = stopAfter(remover, removal, verbs);
      for (const other of [scanner, reader]) areGoneFor(other, remover);
      seen.add(JSON.stringify(textsOf(scanner)));
      for (const key of KEYS) reader.pool.run(insertion(reader, key));
      assert.deepEqual(checked(reader), { problems: [], records: KEYS.length }, `${verbs} verbs`);
      if (done < verbs) break;
    }
    const counts = [...seen].map((texts) => JSON.parse(texts).length);
    assert.equal(counts.length, 2, 'before and after');
    assert.ok(counts[0] === 9 && counts[1] <= 7, `${counts} records`);
  }
});

test('a repair that fails under the lock keeps its slot, which the lock names', (t) => {
  let kept = 0;
  for (let steps = 0, done = false; !done; steps++) {
    const writer = clientOf(t, SHAPE);
    const [repairer, reader] = [0, 1].map(() => clientOf(t, SHAPE, writer.handle));
    for (const key of KEYS.slice(0, 2)) writer.pool.run(insertion(writer, key));
    // All of the insertion but the release of its lock.
    stopAfter(writer, insertion(writer, KEYS[2]), 9);
    areGoneFor(repairer, writer);
    const meeting = insertion(repairer, KEYS[3]);
    done = failAfter(repairer, meeting, steps);
    if (!done && repairer.pool.intents.takeForRepair() === NO_SLOT) kept++;
    areGoneFor(reader, writer, repairer);
    for (const key of KEYS.slice(2)) reader.pool.run(insertion(reader, key));
    assert.deepEqual(checked(reader), { problems: [], records: KEYS.length }, `${steps} steps`);
  }
  assert.ok(kept > 0);
});

/** Fails the batch after so many; whether the operation ended before. */
function failAfter({ pool }: Client, operation: Operation<unknown>, steps: number): boolean {
  for (let step = 0; step <= steps; step++) {
    const next = operation.next();
    if (next.done) return true;
    if (step < steps) pool.fabric.execute(next.value);
  }
  const cleaningUp = () => {
    let next = operation.throw(new Error('out of reach'));
    for (; !next.done; next = operation.next()) pool.fabric.execute(next.value);
  };
  assert.throws(cleaningUp, /out of reach/);
  return false;
}

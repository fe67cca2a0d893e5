import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Scope } from '../../store/test-support/pools.ts';
import { ALWAYS, type Condition, IF_ABSENT, IF_PRESENT, INSERTED, REPLACED } from '../contract.ts';
import { checked, clientOf, foundText, requestFor, scanned } from './test-support/client.ts';

/**
 * Random operations of two clients in turn against a sorted map, on trees so small that most runs
 * grow several levels. fast-check prints the seed and the shrunk operations of a failure.
 */
const KEYS: readonly Uint8Array[] = [
  ...['', 'a', 'a\0', 'a\0\0', 'ab', 'é', 'x'.repeat(200), 'x'.repeat(16_400)].map(utf8),
  ...[Uint8Array.of(0xff), Uint8Array.of(0xff, 0), new Uint8Array(8), new Uint8Array(16)],
  ...['y', 'z'].map((last) => utf8('x'.repeat(65_534) + last)),
  ...Array.from({ length: 90 }, (_, i) => utf8(`key ${i}`)),
];

function utf8(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text));
}

const hex = (key: Uint8Array) => Buffer.from(key).toString('hex');

interface Call {
  by: 0 | 1;
  kind: 'put' | 'insert' | 'update' | 'remove' | 'get' | 'scan' | 'walk';
  key: number;
  value: string;
  limit: number;
}

const CONDITIONS: Record<'put' | 'insert' | 'update', Condition> = {
  put: ALWAYS,
  insert: IF_ABSENT,
  update: IF_PRESENT,
};

const calls = fc.array(
  fc.record<Call>({
    by: fc.constantFrom(0, 1),
    kind: fc.constantFrom(
      ...(['put', 'put', 'put', 'insert', 'update', 'remove', 'get', 'scan', 'walk'] as const),
    ),
    key: fc.nat(KEYS.length - 1),
    value: fc.string({ maxLength: 80 }),
    limit: fc.nat(30),
  }),
  { minLength: 60, maxLength: 400, size: 'max' },
);

const shapes = fc.integer({ min: 2, max: 9 }).chain((span) =>
  fc.record({
    span: fc.constant(span),
    neighbourhood: fc.integer({ min: 2, max: Math.min(4, span) }),
    fanout: fc.integer({ min: 2, max: 5 }),
  }),
);

type Shape = { span: number; neighbourhood: number; fanout: number };

function runModel(scope: Scope, shape: Shape, list: readonly Call[]): void {
  const first = clientOf(scope, shape);
  const clients = [first, clientOf(scope, shape, first.handle)];
  const model = new Map<string, string>();
  // Hexadecimal digits are in the order of the bytes.
  const sorted = (from = '') =>
    [...model].filter(([key]) => key >= from).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const { by, kind, key: number, value, limit } of list) {
    const client = clients[by];
    const { pool, index } = client;
    const key = KEYS[number];
    const id = hex(key);
    const old = model.get(id);
    if (kind === 'get') {
      const request = requestFor(client, key);
      const found = pool.run(index.search(request));
      if (found) pool.run(index.records.complete(request));
      assert.equal(found ? foundText(request) : undefined, old);
    } else if (kind === 'remove') {
      assert.equal(pool.run(index.remove(requestFor(client, key))), model.delete(id));
    } else if (kind === 'scan') {
      const found = scanned(client, index.scan(key), limit);
      const all = sorted(id);
      assert.deepEqual(found, all.slice(0, found.length));
      assert.ok(found.length >= Math.min(limit, all.length));
    } else if (kind === 'walk') {
      assert.deepEqual(walked(clients, by), sorted());
    } else {
      const condition = CONDITIONS[kind];
      const outcome = pool.run(index.write(requestFor(client, key, value), condition));
      const writes = kind === 'put' || (kind === 'insert') === (old === undefined);
      const expected = old === undefined ? INSERTED : REPLACED;
      assert.equal(outcome, writes ? expected : 0);
      if (writes) model.set(id, value);
    }
  }
  for (const client of clients) assert.deepEqual(scanned(client, client.index.scan()), sorted());
  assert.deepEqual(checked(first), { problems: [], records: model.size });
}

/** A walk of which each step is another client's, who knows nothing but the cursor. */
function walked(clients: readonly ReturnType<typeof clientOf>[], first: number) {
  const found: [string, string][] = [];
  let cursor = 0;
  for (let page = first; page === first || cursor !== 0; page++) {
    const { pool, index } = clients[page % 2];
    const walk = index.walk(cursor);
    pool.run(
      walk.next((request, keyBytes) => {
        const { u8 } = request.outgoing;
        found.push([hex(u8.subarray(16, 16 + keyBytes)), foundText(request)]);
      }),
    );
    cursor = walk.cursor;
    assert.ok(page < 1000, 'the walk does not end');
  }
  return found;
}

test('random operations of two clients agree with a sorted map', () => {
  const property = fc.property(shapes, calls, (shape, list) => {
    const endings: (() => void)[] = [];
    try {
      runModel({ after: (action) => endings.push(action as () => void) }, shape, list);
    } finally {
      for (const end of endings.reverse()) end();
    }
  });
  fc.assert(property, { numRuns: 60, includeErrorInReport: true, interruptAfterTimeLimit: 40_000 });
});

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rounds } from '../../../random/tests/support/rounds.ts';
import type { Scope } from '../../../store/tests/support/pools.ts';
import {
  ALWAYS,
  type Condition,
  IF_ABSENT,
  IF_PRESENT,
  INSERTED,
  type KeyRange,
  REPLACED,
} from '../../contract.ts';
import {
  type Client,
  checked,
  clientOf,
  foundText,
  requestFor,
  scanned,
} from './support/client.ts';

/**
 * Random operations of two clients in turn against a sorted map, on trees so small that most runs
 * grow several levels. fast-check prints the seed and the shrunk operations of a failure.
 */
const KEYS: readonly Uint8Array[] = [
  ...['', 'a', 'a\0', 'a\0\0', 'ab', 'é', 'x'.repeat(200), 'x'.repeat(16_400)].map(utf8),
  Uint8Array.of(0xff),
  Uint8Array.of(0xff, 0),
  new Uint8Array(8),
  new Uint8Array(16),
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
  /** Of a scan: its other end, which ends count, and where it is sent to. */
  other: number;
  ends: number;
  seek: number;
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
    other: fc.nat(KEYS.length - 1),
    ends: fc.nat(63),
    seek: fc.nat(3 * KEYS.length),
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
  const sorted = () => inOrder(model);
  for (const call of list) {
    const { by, kind, key: number, value } = call;
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
      assertScans(client, call, model);
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

/**
 * Keys 6, 7 and 12 have long separators. Key 6 has the home of key 7, and key 12 the entry behind
 * their neighbourhood, where key 2 was first. So key 7 fits once key 12 has moved back home.
 */
const MOVES_BACK: [Shape, Call[]] = [
  { span: 3, neighbourhood: 2, fanout: 2 },
  (['put 2', 'put 12', 'put 6', 'remove 2', 'put 7'] as const).map((words) => {
    const [kind, key] = words.split(' ') as ['put' | 'remove', string];
    return { by: 0, kind, key: Number(key), value: '', limit: 0, other: 0, ends: 0, seek: 0 };
  }),
];

/** Hexadecimal digits are in the order of the bytes. */
function inOrder(model: ReadonlyMap<string, string>): [string, string][] {
  return [...model].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A scan with bounds or without, limited or not, in either direction, and its seek. */
function assertScans(client: Client, call: Call, model: ReadonlyMap<string, string>): void {
  const bit = (i: number) => (call.ends & (1 << i)) !== 0;
  const bound = (key: number, inclusive: boolean) => ({ key: KEYS[key], inclusive });
  const range: KeyRange = {
    lower: bit(0) ? bound(call.key, bit(1)) : undefined,
    upper: bit(2) ? bound(call.other, bit(3)) : undefined,
    reverse: bit(4),
    limit: bit(5) ? call.limit : undefined,
    width: 1 + (call.limit % 5),
  };
  const { lower, upper, reverse, limit } = range;
  const all = inOrder(model).filter(([key]) => {
    const low = lower === undefined || key > hex(lower.key) || (bit(1) && key === hex(lower.key));
    const high = upper === undefined || key < hex(upper.key) || (bit(3) && key === hex(upper.key));
    return low && high;
  });
  if (reverse) all.reverse();
  const scan = client.index.scan(range);
  assert.deepEqual(scanned(client, scan), all.slice(0, limit));
  assert.ok(scan.done);
  const target = KEYS[call.seek];
  if (target === undefined) return;
  scan.seek(target);
  const rest = all.filter(([key]) => (reverse ? key <= hex(target) : key >= hex(target)));
  assert.deepEqual(scanned(client, scan), rest.slice(0, limit));
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
  fc.assert(property, {
    numRuns: rounds(25, 300),
    examples: [MOVES_BACK],
    includeErrorInReport: true,
    interruptAfterTimeLimit: rounds(40_000, 600_000),
  });
});

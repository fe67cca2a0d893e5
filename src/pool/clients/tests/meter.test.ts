import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CLIENT_ENTRY_BYTES } from '../../layout.ts';
import { UnwaitedWrites } from '../../unwaited-writes.ts';
import { figuresIn, LATENCY_CODES, latencyCode, latencyOf, Meter } from '../meter.ts';

test('a byte says a latency within 5 %, none is 0, and both ends hold', () => {
  for (let microseconds = 0.06; microseconds < 1e8; microseconds *= 1.31) {
    const said = latencyOf(latencyCode(microseconds));
    assert.ok(Math.abs(said / microseconds - 1) < 0.05, `${microseconds} became ${said}`);
  }
  assert.deepEqual([latencyOf(0), latencyCode(0), latencyCode(1e12)], [0, 1, LATENCY_CODES - 1]);
});

test('a row says what its client has counted; one that was never written says nothing', () => {
  const row = new DataView(new ArrayBuffer(CLIENT_ENTRY_BYTES));
  assert.equal(figuresIn(row, 0), undefined);
  const meter = new Meter();
  assert.equal(meter.dueInMs, Number.POSITIVE_INFINITY);
  const timing = { startedAt: 0, isWrite: false };
  meter.timedEvery = 1;
  for (let i = 0; i < 5; i++) {
    meter.beginRead(timing);
    meter.end(timing);
  }
  meter.countMiss();
  meter.beginWrite(timing);
  meter.countScanned(7);
  meter.noteHeld(3, 2 ** 40);
  // Executes the WRITEs as a fabric would.
  for (const batch of meter.tell(new UnwaitedWrites(), 0)) {
    for (let verb = 0; verb < batch.length; verb++) {
      const from = batch.offset[verb];
      const bytes = batch.scratch[verb].u8.subarray(from, from + batch.bytes[verb]);
      new Uint8Array(row.buffer).set(bytes, batch.address[verb]);
    }
  }
  const figures = figuresIn(row, 0);
  assert.ok(figures !== undefined && Math.abs(figures.toldAt - Date.now()) < 60_000);
  const { reads, misses, writes, scanned, read, write } = figures;
  assert.deepEqual([reads, misses, writes, scanned], [5, 1, 1, 7]);
  assert.ok(read.p50 > 0 && read.p999 >= read.p50);
  assert.equal(write.p50, 0, 'the write has not ended');
  assert.deepEqual([figures.claimed, figures.waiting], [192, 64 * (2 ** 32 - 1)]);
  meter.noteHeld(3, 2 ** 40);
  assert.equal(meter.dueInMs, Number.POSITIVE_INFINITY, 'there is no news');
  meter.noteHeld(0, 2 ** 40);
  meter.tellEveryMs = 1000;
  assert.ok(meter.dueInMs <= 1000, 'what it holds is news without any operation');
});

import type { Operation } from '../../../verbs/index.ts';
import type { SlotRecord } from '../../substrates/record-visits.ts';
import { partOf, visitSample } from '../../substrates/sample.ts';
import { recordOf, unitsOfSlot } from '../protocol/slot.ts';
import { STEP_BUCKETS } from '../protocol/table-reader.ts';
import type { HStoreRequest, HStoreTable } from './table.ts';
import { HStoreWalk } from './walk.ts';

/** `Index.sample`: a place is some buckets of a pair with their chains, one step of a walk. */
export function* sampleRecords(
  table: HStoreTable,
  request: HStoreRequest,
  places: readonly number[],
  enough: number,
  visit: (request: HStoreRequest, keyBytes: number) => void,
): Operation<void> {
  const { records, shape, pairs } = table;
  const stepsOfPair = Math.ceil(shape.buckets / STEP_BUCKETS);
  const read = new Set<number>();
  const slots: SlotRecord[] = [];
  for (const place of places) {
    const { part: step } = partOf(place, pairs.length * stepsOfPair);
    if (slots.length >= enough || read.has(step)) continue;
    read.add(step);
    const pair = Math.floor(step / stepsOfPair);
    const first = pair * shape.buckets + STEP_BUCKETS * (step % stepsOfPair);
    const walk = new HStoreWalk(table, first);
    for (const slot of yield* walk.nextSlots()) {
      slots.push({ address: recordOf(slot), units: unitsOfSlot(slot.high) });
    }
  }
  const picked = { seed: shape.seed, place: (places[0] * 2 ** 24) % 1, enough };
  yield* visitSample(records, request, slots, picked, visit);
}

import type { Operation } from '../../verbs/index.ts';
import type { Index, IndexShape } from '../contract.ts';
import { type IndexPicture, pictureOf } from '../picture.ts';

/** `Index.shape`; an index that lacks it is one table, whose slots are counted part by part. */
export function* shapeOf(index: Index): Operation<IndexShape> {
  if (index.shape) return yield* index.shape();
  const { used, slots } = yield* countParts(index);
  return { globalDepth: 0, subtables: 1, slots, records: used };
}

/** `Index.picture`; of an index that lacks it, how full the parts of its one table are. */
export function* pictureFrom(index: Index, partsMax: number): Operation<IndexPicture> {
  if (index.picture) return yield* index.picture(partsMax);
  const table = { name: index.manifest.name, ...(yield* countParts(index)) };
  return pictureOf([{ parts: 'tables', cell: 'part', total: 1, isExact: true, shown: [table] }]);
}

function* countParts(index: Index): Operation<{ used: number; slots: number; cells: number[] }> {
  const all = { used: 0, slots: 0, cells: [] as number[] };
  for (const parts = index.parts(); !parts.order.done; parts.order.pass()) {
    yield* parts.read();
    const slots = parts.slotCount ?? 0;
    let used = 0;
    parts.eachSlot((_record, _units, isClaim) => {
      if (!isClaim) used++;
    });
    all.used += used;
    all.slots += slots;
    all.cells.push(used / Math.max(1, slots));
  }
  return all;
}

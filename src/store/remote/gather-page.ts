import type { Operation } from '../../verbs/index.ts';
import type { Value } from '../api.ts';
import { PageOfWalk, type RecordWalk } from '../calls/record-walk.ts';
import type { Session } from './session.ts';

/** A page of a walk, a step at a time; each step is an operation of its own. */
export async function gather<T>(
  session: Session,
  walk: RecordWalk<Value>,
  count: number,
  next: () => Operation<T[]>,
): Promise<T[]> {
  const page = new PageOfWalk<T>(walk, count);
  while (!page.complete) page.add(await session.runOne(next));
  return page.found;
}

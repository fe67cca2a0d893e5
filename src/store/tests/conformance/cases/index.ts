import { batchCases } from './batches.ts';
import { counterCases } from './counters.ts';
import { formatCases } from './formats.ts';
import { keyCases } from './keys.ts';
import { lifecycleCases } from './lifecycle.ts';
import { boundedCases } from './lifetimes/bounded.ts';
import { expiryCases } from './lifetimes/expiry.ts';
import { namespaceCases } from './namespaces.ts';
import { orderedCases } from './ordered.ts';
import { prefixCases } from './prefixes.ts';
import { readCases } from './reads.ts';
import { sharingCases } from './sharing.ts';
import { sortedLoadCases } from './sorted-load.ts';
import { type Subject, suiteOf } from './suite.ts';
import { valueCases } from './values.ts';
import { walkCases } from './walks.ts';
import { writeCases } from './writes.ts';

export type { Subject } from './suite.ts';

/** The requirements on every store, whatever its index and fabric: one test for each. */
export function conformance(subject: Subject): void {
  const suite = suiteOf(subject);
  keyCases(suite);
  valueCases(suite);
  formatCases(suite);
  namespaceCases(suite);
  writeCases(suite);
  counterCases(suite);
  expiryCases(suite);
  if (subject.bounded !== false) boundedCases(suite);
  batchCases(suite);
  readCases(suite);
  walkCases(suite);
  orderedCases(suite);
  prefixCases(suite);
  sortedLoadCases(suite);
  sharingCases(suite);
  lifecycleCases(suite);
}

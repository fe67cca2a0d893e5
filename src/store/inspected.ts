import { type InspectOptions, inspect } from 'node:util';

interface Inspected {
  readonly url: string;
  readonly name: string;
}

/** What `console.log(store)` shows: what is known without a look at the pool. */
export function inspected(
  kind: string,
  { url, name }: Inspected,
  index: string,
  closed: boolean,
  options: InspectOptions,
): string {
  return `${kind} ${inspect({ url, store: name, index, closed }, options)}`;
}

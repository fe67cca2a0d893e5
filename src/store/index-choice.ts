import type { IndexKind, IndexParameters } from '../indexes/contract.ts';
import { kindNamed } from '../indexes/kinds.ts';
import { WITHOUT } from '../indexes/substrates/parameters.ts';
import type { IndexChoice, OpenOptions } from './api.ts';
import { checkFlag, invalid, isRecord, shown } from './arguments.ts';

/** The index that the option `index` asks for. */
export interface IndexWish {
  kind: IndexKind;
  /** The parameters that it names, in the form that the kind takes. */
  wishes: Readonly<Record<string, number | undefined>>;
}

type LabChoice = IndexChoice & { [WITHOUT]?: number };

/** Raises SW_INVALID_ARGUMENT for an index or a parameter that there is not. */
export function indexWish(index: OpenOptions['index']): IndexWish | undefined {
  if (index === undefined) return undefined;
  if (typeof index === 'string') return { kind: kindNamed(index), wishes: {} };
  if (!isRecord(index)) {
    throw invalid(`index is a name, or { kind, …parameters }, not ${shown(index)}`);
  }
  const { kind: name, [WITHOUT]: without, ...parameters } = index as LabChoice;
  const kind = kindNamed(name);
  refuseUnknown(kind, parameters);
  return { kind, wishes: { ...wishesOf(kind, parameters), without } };
}

/** Parameters of an index as users see them. */
export function shownParameters(
  { flags }: IndexKind,
  parameters: IndexParameters,
): Record<string, number | boolean> {
  const entries = Object.entries(parameters);
  return Object.fromEntries(
    entries.map(([name, value]) => [name, flags.includes(name) ? value === 1 : value]),
  );
}

/** A mistyped parameter would otherwise leave the default in place for ever. */
function refuseUnknown({ manifest, parameterNames }: IndexKind, parameters: object): void {
  const known = parameterNames.filter((name) => name !== WITHOUT.description);
  const unknown = Object.keys(parameters).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  const names = known.filter((name) => name !== 'seed').join(', ');
  throw invalid(`the index ${manifest.name} has no parameter ${unknown}; there is ${names}`);
}

function wishesOf({ flags }: IndexKind, parameters: object): IndexWish['wishes'] {
  const wishes: Record<string, number | undefined> = {};
  for (const [name, value] of Object.entries(parameters)) {
    const isFlag = value !== undefined && flags.includes(name);
    if (isFlag) checkFlag(name, value);
    wishes[name] = isFlag ? Number(value) : value;
  }
  return wishes;
}

import {
  keyword,
  NOT_AN_INTEGER,
  parseInteger,
  ReplyError,
  SYNTAX_ERROR,
} from '../../arguments.ts';
import type { Client } from '../../server-view.ts';
import { type ClientKind, kindOf } from './client-line.ts';

/** Whether a connection is meant. */
export type Selection = (client: Client) => boolean;

const KINDS: Readonly<Record<string, ClientKind>> = {
  MASTER: 'master',
  NORMAL: 'normal',
  PUBSUB: 'pubsub',
  REPLICA: 'replica',
  SLAVE: 'replica',
};

/** The options of CLIENT LIST. */
export function parseListOptions([option, ...values]: readonly Buffer[]): Selection {
  if (option === undefined) return () => true;
  const name = keyword(option);
  if (name === 'TYPE' && values.length === 1) return ofKind(values[0]);
  if (name !== 'ID' || values.length === 0) throw new ReplyError(SYNTAX_ERROR);
  const ids = new Set(values.map((value) => parseId(value, 'ERR Invalid client ID')));
  return ({ state }) => ids.has(state.id);
}

export function ofKind(argument: Buffer): Selection {
  const kind = KINDS[keyword(argument)];
  if (kind === undefined) {
    throw new ReplyError(`ERR Unknown client type '${argument.toString('utf8', 0, 128)}'`);
  }
  return (client) => kindOf(client) === kind;
}

export function parseId(argument: Buffer, error = NOT_AN_INTEGER): number {
  return Number(parseInteger(argument, error));
}

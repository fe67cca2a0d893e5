import type { Command, CommandTable } from '../command.ts';
import { auth } from './auth.ts';
import { client } from './client.ts';
import { command } from './command.ts';
import { config } from './config.ts';
import { dbsize } from './dbsize.ts';
import { decr } from './decr.ts';
import { decrby } from './decrby.ts';
import { del } from './del.ts';
import { discard } from './discard.ts';
import { echo } from './echo.ts';
import { exec } from './exec.ts';
import { exists } from './exists.ts';
import { flushall } from './flushall.ts';
import { flushdb } from './flushdb.ts';
import { get } from './get.ts';
import { getdel } from './getdel.ts';
import { getset } from './getset.ts';
import { hello } from './hello.ts';
import { incr } from './incr.ts';
import { incrby } from './incrby.ts';
import { info } from './info.ts';
import { mget } from './mget.ts';
import { mset } from './mset.ts';
import { multi } from './multi.ts';
import { ping } from './ping.ts';
import { quit } from './quit.ts';
import { reset } from './reset.ts';
import { scan } from './scan.ts';
import { select } from './select.ts';
import { set } from './set.ts';
import { setnx } from './setnx.ts';
import { strlen } from './strlen.ts';
import { swCount } from './sw-count.ts';
import { swRange } from './sw-range.ts';
import { swRemrange } from './sw-remrange.ts';
import { type } from './type.ts';
import { unlink } from './unlink.ts';
import { unwatch } from './unwatch.ts';
import { watch } from './watch.ts';

class Table implements CommandTable {
  readonly all: readonly Command[];
  readonly #byName: ReadonlyMap<string, Command>;
  readonly #nameLengthMax: number;

  constructor(commands: readonly Command[]) {
    this.all = commands;
    // Clients send a name all in one case or the other, which then costs no conversion.
    this.#byName = new Map(
      commands.flatMap((each) => [
        [each.name, each],
        [each.name.toUpperCase(), each],
      ]),
    );
    this.#nameLengthMax = Math.max(...commands.map(({ name }) => name.length));
  }

  find(name: Buffer): Command | undefined {
    if (name.length > this.#nameLengthMax) return undefined;
    const text = name.toString('latin1');
    return this.#byName.get(text) ?? this.#byName.get(text.toLowerCase());
  }
}

/** Every command that the gateway serves. */
export const COMMANDS: CommandTable = new Table([
  auth,
  client,
  command,
  config,
  dbsize,
  decr,
  decrby,
  del,
  discard,
  echo,
  exec,
  exists,
  flushall,
  flushdb,
  get,
  getdel,
  getset,
  hello,
  incr,
  incrby,
  info,
  mget,
  mset,
  multi,
  ping,
  quit,
  reset,
  scan,
  select,
  set,
  setnx,
  strlen,
  swCount,
  swRange,
  swRemrange,
  type,
  unlink,
  unwatch,
  watch,
]);

import type { Command, CommandTable } from '../command.ts';
import { bitcount } from './bits/bitcount.ts';
import { bitfield, bitfieldRo } from './bits/bitfield.ts';
import { bitop } from './bits/bitop.ts';
import { bitpos } from './bits/bitpos.ts';
import { getbit, setbit } from './bits/setbit.ts';
import { publish } from './channels/publish.ts';
import { pubsub } from './channels/pubsub.ts';
import { psubscribe, punsubscribe, subscribe, unsubscribe } from './channels/subscribe.ts';
import { auth } from './connection/auth.ts';
import { client } from './connection/client.ts';
import { echo } from './connection/echo.ts';
import { hello } from './connection/hello.ts';
import { ping } from './connection/ping.ts';
import { quit } from './connection/quit.ts';
import { reset } from './connection/reset.ts';
import { select } from './connection/select.ts';
import { copy, move } from './keys/copy.ts';
import { del, unlink } from './keys/del.ts';
import { exists, touch } from './keys/exists.ts';
import { expire, expireat, pexpire, pexpireat } from './keys/expire.ts';
import { keys } from './keys/keys.ts';
import { object } from './keys/object.ts';
import { persist } from './keys/persist.ts';
import { randomkey } from './keys/randomkey.ts';
import { rename, renamenx } from './keys/rename.ts';
import { scan } from './keys/scan.ts';
import { expiretime, pexpiretime, pttl, ttl } from './keys/ttl.ts';
import { type } from './keys/type.ts';
import { decr, decrby, incr, incrby } from './numbers/incr.ts';
import { incrbyfloat } from './numbers/incrbyfloat.ts';
import { swCount } from './ranges/sw-count.ts';
import { swRange } from './ranges/sw-range.ts';
import { swRemrange } from './ranges/sw-remrange.ts';
import { command } from './server/command.ts';
import { config } from './server/config.ts';
import { dbsize } from './server/dbsize.ts';
import { flushall, flushdb } from './server/flushdb.ts';
import { info } from './server/info.ts';
import { monitor } from './server/monitor.ts';
import { slowlog } from './server/slowlog.ts';
import { time } from './server/time.ts';
import { append } from './strings/append.ts';
import { get } from './strings/get.ts';
import { getdel } from './strings/getdel.ts';
import { getex } from './strings/getex.ts';
import { getrange, substr } from './strings/getrange.ts';
import { getset } from './strings/getset.ts';
import { lcs } from './strings/lcs.ts';
import { mget } from './strings/mget.ts';
import { mset, msetnx } from './strings/mset.ts';
import { set } from './strings/set.ts';
import { psetex, setex } from './strings/setex.ts';
import { setnx } from './strings/setnx.ts';
import { setrange } from './strings/setrange.ts';
import { strlen } from './strings/strlen.ts';
import { exec } from './transactions/exec.ts';
import { discard, multi } from './transactions/multi.ts';
import { unwatch, watch } from './transactions/watch.ts';

/** A hash table of names, which are compared as bytes: making a string of one takes longer. */
class Table implements CommandTable {
  readonly all: readonly Command[];
  /** A power of two, at most half full: every search ends at an empty slot. */
  readonly #slots: (Command | undefined)[];
  readonly #nameLengthMax: number;

  constructor(commands: readonly Command[]) {
    this.all = commands;
    this.#slots = Array(2 ** Math.ceil(Math.log2(2 * commands.length))).fill(undefined);
    for (const command of commands) this.#slots[this.#slotOf(Buffer.from(command.name))] = command;
    this.#nameLengthMax = Math.max(...commands.map(({ name }) => name.length));
  }

  find(name: Buffer): Command | undefined {
    return name.length > this.#nameLengthMax ? undefined : this.#slots[this.#slotOf(name)];
  }

  /** Where the command of that name stands, or would stand. */
  #slotOf(name: Buffer): number {
    let hash = 0;
    // Upper and lower case of an ASCII letter differ in this one bit.
    for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + (name[i] | 32)) | 0;
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (;;) {
      const command = this.#slots[slot];
      if (command === undefined || isNamed(command, name)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}

function isNamed({ name }: Command, given: Buffer): boolean {
  if (given.length !== name.length) return false;
  for (let i = 0; i < name.length; i++) {
    const byte = given[i];
    const isUpper = byte >= 65 && byte <= 90;
    if ((isUpper ? byte | 32 : byte) !== name.charCodeAt(i)) return false;
  }
  return true;
}

/** Every command that the gateway serves. */
export const COMMANDS: CommandTable = new Table([
  append,
  auth,
  bitcount,
  bitfield,
  bitfieldRo,
  bitop,
  bitpos,
  client,
  command,
  config,
  copy,
  dbsize,
  decr,
  decrby,
  del,
  discard,
  echo,
  exec,
  exists,
  expire,
  expireat,
  expiretime,
  flushall,
  flushdb,
  get,
  getbit,
  getdel,
  getex,
  getrange,
  getset,
  hello,
  incr,
  incrby,
  incrbyfloat,
  info,
  keys,
  lcs,
  mget,
  monitor,
  move,
  mset,
  msetnx,
  multi,
  object,
  persist,
  pexpire,
  pexpireat,
  pexpiretime,
  ping,
  psetex,
  psubscribe,
  pttl,
  publish,
  pubsub,
  punsubscribe,
  quit,
  randomkey,
  rename,
  renamenx,
  reset,
  scan,
  select,
  set,
  setbit,
  setex,
  setnx,
  setrange,
  slowlog,
  strlen,
  subscribe,
  substr,
  swCount,
  swRange,
  swRemrange,
  time,
  touch,
  ttl,
  type,
  unlink,
  unsubscribe,
  unwatch,
  watch,
]);

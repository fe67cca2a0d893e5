import type { Command } from '../command.ts';
import { bench } from './bench.ts';
import { check } from './check.ts';
import { create } from './create.ts';
import { del } from './del.ts';
import { destroy } from './destroy.ts';
import { dump } from './dump.ts';
import { get } from './get.ts';
import { inspect } from './inspect.ts';
import { load } from './load.ts';
import { put } from './put.ts';
import { serve } from './serve.ts';
import { verify } from './verify.ts';

/** In the order of the help. */
export const COMMANDS: readonly Command[] = [
  serve,
  create,
  get,
  put,
  del,
  load,
  dump,
  inspect,
  check,
  bench,
  verify,
  destroy,
];

import type { Program } from '../command.ts';
import { bench } from './bench.ts';
import { check } from './check.ts';
import { copy } from './copy.ts';
import { create } from './create.ts';
import { del } from './del.ts';
import { destroy } from './destroy.ts';
import { drop } from './drop.ts';
import { dump } from './dump.ts';
import { get } from './get.ts';
import { grow } from './grow.ts';
import { indexServer } from './index-server.ts';
import { inspect } from './inspect.ts';
import { load } from './load.ts';
import { memoryNode } from './memory-node.ts';
import { nodes } from './nodes.ts';
import { pools } from './pools.ts';
import { scan } from './scan.ts';
import { selftest } from './selftest.ts';
import { serve } from './serve.ts';
import { set } from './set.ts';
import { stores } from './stores.ts';
import { top } from './top.ts';
import { web } from './web.ts';

export const STEPWELL: Program = {
  name: 'stepwell',
  examples: ['serve', 'set shm:demo greeting hello', 'get shm:demo greeting'],
  commands: [
    serve,
    indexServer,
    create,
    get,
    set,
    del,
    scan,
    load,
    dump,
    top,
    web,
    pools,
    stores,
    inspect,
    check,
    memoryNode,
    nodes,
    bench,
    selftest,
    grow,
    copy,
    drop,
    destroy,
  ],
};

import type { Program } from '../command.ts';
import { bench } from './bench.ts';
import { check, selftest } from './check.ts';
import { dump } from './dump.ts';
import { inspect } from './inspect.ts';
import { load } from './load.ts';
import { copy, create, destroy, drop, grow, pools, stores } from './pools.ts';
import { del, get, keys, scan, set } from './records.ts';
import { serve } from './serve.ts';
import { indexServer, memoryNode, nodes } from './servers.ts';
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
    keys,
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

import { resolve } from 'node:path';
import { buildPage } from './page.ts';

/** `tsx scripts/build-page.ts FOLDER` */
await buildPage(resolve(import.meta.dirname, '..'), resolve(process.argv[2]));

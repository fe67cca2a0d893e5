/**
 * abstract-level's own test suite, unchanged, as its users run it: `run-suite.ts memory:`, or with
 * a folder, in which each database is then a small pool file of its own.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import tape from 'tape';
import { createSync } from '../../../../store/open.ts';
import { StepwellLevel, type StepwellLevelOptions } from '../../index.ts';

type Suite = (options: {
  test: typeof tape;
  factory: (options?: StepwellLevelOptions<string, string>) => StepwellLevel;
}) => void;

const suite = createRequire(import.meta.url)('abstract-level/test') as Suite;
const [place] = process.argv.slice(2);
const counter = new Uint32Array(1);

function freshLocation(): string {
  if (place === 'memory:') return place;
  const url = `file:${join(place, String(++counter[0]))}`;
  createSync(url, { size: 4 * 2 ** 20, regionSize: 4 * 2 ** 20, maxClients: 4 });
  return url;
}

suite({ test: tape, factory: (options) => new StepwellLevel(freshLocation(), options) });

import type { RaceParameters } from '../../store/api.ts';
import { defineCommand } from '../command.ts';
import type { Library } from '../context.ts';
import { EXIT } from '../failures.ts';
import { formatSize, parseCount } from '../sizes.ts';
import {
  definedOnly,
  POOL_OPTIONS,
  poolOptions,
  STORE_OPTION,
  sharedUrl,
  storeNamed,
} from '../store-options.ts';

const EXAMPLES = [
  'create shm:demo --size 4g',
  'create file:/var/tmp/cities.pool --store cities --associativity 7 --groups 64',
];

export const create = defineCommand({
  name: 'create',
  arguments: '<url>',
  summary: 'Make a new pool, and a store in it when asked for',
  details:
    '  Opening a pool also makes it, so this is only needed to choose sizes and parameters.\n' +
    '  Memory is taken from the system as it is used, not when the pool is made.',
  options: {
    ...POOL_OPTIONS,
    ...STORE_OPTION,
    associativity: { value: 'K', read: parseCount(1, 64), about: 'Slots in a bucket' },
    groups: { value: 'N', read: parseCount(2, 65_536), about: 'Bucket groups in a subtable' },
    'initial-depth': { value: 'D', read: parseCount(0, 24), about: 'Directory bits to begin with' },
    'max-depth': { value: 'D', read: parseCount(0, 24), about: 'Directory bits to reserve' },
  },
  examples: EXAMPLES,
  async run(context, [url], options) {
    sharedUrl(url, EXAMPLES[0]);
    const library = await context.library();
    const race = definedOnly({
      associativity: options.associativity,
      groups: options.groups,
      initialDepth: options['initial-depth'],
      maxDepth: options['max-depth'],
    });
    library.createPool(url, poolOptions(options));
    const wantsStore = options.store !== undefined || Object.keys(race).length > 0;
    if (wantsStore) createStore(library, url, options.store, race);
    const { path, sizeMax } = library.inspectPool(url);
    await context.stdout.line(`created ${url} (${path}, up to ${formatSize(sizeMax)})`);
    return EXIT.ok;
  },
});

/** Takes the new pool away again when its store cannot be made: all or nothing. */
function createStore(
  library: Library,
  url: string,
  store: string | undefined,
  race: RaceParameters,
): void {
  try {
    library.openSync(url, { ...storeNamed('create', store), race, create: true }).close();
  } catch (error) {
    library.destroyPool(url);
    throw error;
  }
}

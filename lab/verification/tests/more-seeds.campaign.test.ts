/** The random schedules of these tests, of many more seeds. */
import './chime.test.ts';
import './evictions.test.ts';
import './expiry.test.ts';
import './hopscotch.test.ts';
import './hstore.test.ts';
import './near.test.ts';
import './repairs.rest.test.ts';
import './schedules.test.ts';
import './shard.test.ts';
import './shard-placement.test.ts';
import './shared-chunks.test.ts';

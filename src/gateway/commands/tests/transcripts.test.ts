import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isMissing } from '../../../store/tests/support/missing-tools.ts';
import { command, exchange } from '../../tests/support/exchange.ts';
import { type RealRedis, startRedis } from '../../tests/support/redis-server.ts';
import { type RigWithDatabases, startWithDatabases } from './support/databases.ts';
import { readTranscripts, repliesOf, requestsOf, type Section } from './support/transcript.ts';

const SECTIONS = readTranscripts();

describe('transcripts', () => {
  let rig: RigWithDatabases;
  before(async () => {
    rig = await startWithDatabases();
  });
  after(() => rig.server.close());

  for (const section of SECTIONS) {
    it(`${section.file}: ${section.name}`, async () => {
      for (const options of [{}, { piece: 7 }]) {
        rig.clear();
        const received = await exchange(rig.server, requestsOf(section), options);
        assert.deepEqual(repliesOf(section, received).exchanges, section.exchanges);
      }
    });
  }
});

describe('transcripts of Redis itself', { skip: isMissing('redis-server') }, () => {
  let redis: RealRedis;
  let rig: RigWithDatabases;
  before(async () => {
    redis = await startRedis();
    rig = await startWithDatabases();
  });
  after(async () => {
    await rig.server.close();
    await redis.stop();
  });

  async function recorded(section: Section, hello: string): Promise<string> {
    await redis.exchange(command('FLUSHALL'));
    return redis.exchange(Buffer.concat([Buffer.from(hello), requestsOf(section)]));
  }

  for (const section of SECTIONS) {
    const { file, name, differs } = section;
    if (differs === undefined) {
      it(`answers the same: ${file}: ${name}`, async () => {
        const { exchanges } = repliesOf(section, await recorded(section, ''));
        assert.deepEqual(exchanges, section.exchanges);
      });
      it(`answers the same in RESP3: ${file}: ${name}`, async () => {
        rig.clear();
        const hello = 'HELLO 3\r\n';
        const bytes = Buffer.concat([Buffer.from(hello), requestsOf(section)]);
        const ours = afterHello(await exchange(rig.server, bytes));
        assert.equal(ours, afterHello(await recorded(section, hello)));
      });
    } else {
      // Not left out: a difference that is none any more belongs to the others.
      it(`answers otherwise, because ${differs}: ${file}: ${name}`, async () => {
        const { exchanges } = repliesOf(section, await recorded(section, ''));
        assert.notDeepEqual(exchanges, section.exchanges);
      });
    }
  }
});

/** The replies after that to HELLO, whose last element is the empty list of modules. */
function afterHello(replies: string): string {
  const end = 'modules\r\n*0\r\n';
  return replies.slice(replies.indexOf(end) + end.length);
}

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { command } from '../../../tests/support/exchange.ts';
import { startRedis } from '../../../tests/support/redis-server.ts';
import { format, parse, repliesOf, requestsOf, TRANSCRIPTS } from './transcript.ts';

/**
 * Run `npx tsx src/gateway/commands/tests/support/record-transcripts.ts` after adding requests to
 * the transcripts. It records the replies of this machine's redis-server, and leaves sections alone
 * in which Redis differs.
 */
async function record(): Promise<void> {
  const redis = await startRedis();
  for (const file of readdirSync(TRANSCRIPTS)) {
    const path = join(TRANSCRIPTS, file);
    const sections = [];
    for (const section of parse(file, readFileSync(path, 'utf8'))) {
      await redis.exchange(command('FLUSHALL'));
      const received = await redis.exchange(requestsOf(section));
      sections.push(section.differs === undefined ? repliesOf(section, received) : section);
    }
    writeFileSync(path, format(sections));
  }
  await redis.stop();
}

await record();

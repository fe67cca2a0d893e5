/** A process that tells what thread it is, or what it can find out about others. */
import { currentThread, livenessOf, type ThreadIdentity } from '../../thread-identity.ts';

const self = currentThread();
const others = process.argv.slice(2).map((text) => JSON.parse(text) as ThreadIdentity);
if (others.length > 0) {
  process.stdout.write(JSON.stringify(others.map((other) => livenessOf(other, self))));
} else {
  process.stdout.write(`${JSON.stringify(self)}\n`);
  // Until its parent closes it.
  process.stdin.resume();
}

/** A server that answers every so many bytes with so many others, and does nothing else. */
import { createServer } from 'node:net';

const [asked, answered] = process.argv.slice(2).map(Number);
const ANSWERS = 256;
const answers = Buffer.alloc(answered * ANSWERS, 1);

const server = createServer((socket) => {
  let waiting = 0;
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    waiting += chunk.length;
    let whole = Math.floor(waiting / asked);
    waiting -= whole * asked;
    for (; whole > 0; whole -= ANSWERS) {
      socket.write(answers.subarray(0, Math.min(whole, ANSWERS) * answered));
    }
  });
});
server.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as { port: number }).port);
});
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.(user + system);
});
process.on('disconnect', () => process.exit());

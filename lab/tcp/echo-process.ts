/**
 * An echo without verbs: answers every frame with one of the same sequence number, as long as the
 * results would be, with constant contents. With the word `bytes` it does not parse frames at all:
 * it answers each `asked` bytes with `answered` bytes.
 */
import { createServer, type Socket } from 'node:net';
import { copyLocal } from '../../src/fabrics/shared/copy.ts';
import { Inbox } from '../../src/fabrics/tcp/client/inbox.ts';
import { Outbox } from '../../src/fabrics/tcp/client/outbox.ts';
import { FRAME_BYTES_MAX, HEAD_BYTES, headWord, RESULTS } from '../../src/fabrics/tcp/wire.ts';
import { Scratch } from '../../src/verbs/index.ts';

const [kind, ...sizes] = process.argv.slice(2);
const [asked, answered] = sizes.map(Number);
const ANSWERS = 256;

function echoFrames(socket: Socket): void {
  const inbox = new Inbox(FRAME_BYTES_MAX);
  const outbox = new Outbox(socket);
  const head = headWord(RESULTS, answered);
  const content = new Scratch(answered);
  socket.on('data', (chunk) => {
    inbox.append(chunk);
    for (let bytes = inbox.frame(); bytes > 0; bytes = inbox.frame()) {
      const sequence = inbox.scratch.i32[(inbox.start >> 2) + 1];
      inbox.skip(bytes);
      const output = outbox.reserve(answered);
      const at = outbox.length - answered;
      output.i32[at >> 2] = head;
      output.i32[(at >> 2) + 1] = sequence;
      copyLocal(content, 0, output, at + HEAD_BYTES, answered - HEAD_BYTES);
    }
    outbox.flush();
  });
}

function echoBytes(socket: Socket): void {
  const answers = Buffer.alloc(answered * ANSWERS, 1);
  let waiting = 0;
  socket.on('data', (chunk) => {
    waiting += chunk.length;
    let whole = Math.floor(waiting / asked);
    waiting -= whole * asked;
    for (; whole > 0; whole -= ANSWERS) {
      socket.write(answers.subarray(0, Math.min(whole, ANSWERS) * answered));
    }
  });
}

if (asked < HEAD_BYTES || answered < HEAD_BYTES) throw new RangeError('a frame has a head');
const server = createServer((socket) => {
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  if (kind === 'bytes') echoBytes(socket);
  else echoFrames(socket);
});
server.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as { port: number }).port);
});
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.(user + system);
});
process.on('disconnect', () => process.exit());

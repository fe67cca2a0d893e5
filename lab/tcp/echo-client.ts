import { once } from 'node:events';
import { connect } from 'node:net';
import { copyLocal } from '../../src/fabrics/shared/copy.ts';
import { Inbox } from '../../src/fabrics/tcp/client/inbox.ts';
import { Outbox } from '../../src/fabrics/tcp/client/outbox.ts';
import { BATCH, FRAME_BYTES_MAX, HEAD_BYTES, headWord } from '../../src/fabrics/tcp/wire.ts';
import { Scratch } from '../../src/verbs/index.ts';

interface EchoTask {
  port: number;
  /** Bytes of a request, and of an answer. */
  asked: number;
  answered: number;
  /** Requests in flight together. */
  width: number;
  ms: number;
}

/**
 * Measures how many frames per second an echo returns. They are as long as those of a batch of
 * READs. Like any client, this one copies requests into its outbox and answers out of its inbox,
 * but it does not encode or decode verbs.
 */
export async function runFrames({ port, asked, answered, width, ms }: EchoTask): Promise<number> {
  const inbox = new Inbox(FRAME_BYTES_MAX);
  let received = (_bytes: number) => true;
  const onread = { buffer: () => inbox.room(), callback: (bytes: number) => received(bytes) };
  const socket = connect({ port, host: '127.0.0.1', onread });
  await once(socket, 'connect');
  socket.setNoDelay(true);
  const outbox = new Outbox(socket);
  const head = headWord(BATCH, asked);
  const content = new Scratch(answered);
  const question = new Scratch(asked);
  let sequence = 0;
  let done = 0;
  let running = true;
  let under = width;
  const ask = () => {
    const output = outbox.reserve(asked);
    const at = outbox.length - asked;
    output.i32[at >> 2] = head;
    output.i32[(at >> 2) + 1] = sequence = (sequence + 1) & 0x7fffffff;
    copyLocal(question, 0, output, at + HEAD_BYTES, asked - HEAD_BYTES);
  };
  const start = performance.now();
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    received = (bytes) => {
      inbox.arrived(bytes);
      for (let frame = inbox.frame(); frame > 0; frame = inbox.frame()) {
        done++;
        if (inbox.scratch.i32[(inbox.start >> 2) + 1] !== (done & 0x7fffffff)) {
          reject(new Error('an answer out of order'));
        }
        const at = inbox.start + HEAD_BYTES;
        copyLocal(inbox.scratch, at, content, 0, frame - HEAD_BYTES);
        inbox.skip(frame);
        if (running) ask();
        else under--;
      }
      outbox.flush();
      if (under === 0) resolve();
      return under > 0;
    };
    for (let i = 0; i < width; i++) ask();
    outbox.flush();
    setTimeout(() => {
      running = false;
    }, ms);
  });
  const rate = (1000 * done) / (performance.now() - start);
  socket.destroy();
  return rate;
}

/** The same number of bytes without frames: counts answers, and sends as many new requests. */
export async function runBytes(task: EchoTask): Promise<number> {
  const { port, asked, answered, width, ms } = task;
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.setNoDelay(true);
  const requests = Buffer.alloc(asked * width, 2);
  let done = 0;
  let waiting = 0;
  let running = true;
  const start = performance.now();
  socket.write(requests);
  await new Promise<void>((resolve, reject) => {
    socket.on('error', reject);
    socket.on('data', (chunk) => {
      waiting += chunk.length;
      const whole = Math.floor(waiting / answered);
      waiting -= whole * answered;
      done += whole;
      if (!running) resolve();
      else if (whole > 0) socket.write(requests.subarray(0, whole * asked));
    });
    setTimeout(() => {
      running = false;
    }, ms);
  });
  const rate = (1000 * done) / (performance.now() - start);
  socket.destroy();
  return rate;
}

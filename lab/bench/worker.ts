import { monotonic } from '../support/clock.ts';
import { openPeer } from './peers/peers.ts';
import type { Answer, Order } from './protocol.ts';
import { WARM_UP, Work } from './work.ts';

/** A child process of the benchmark: one peer in a heap of its own, driven by messages. */
function serve(): void {
  let work: Work | undefined;
  const opened = (): Work => {
    if (work === undefined) throw new Error('no peer is open');
    return work;
  };
  const obey = async (order: Order): Promise<Answer> => {
    switch (order.kind) {
      case 'open':
        work = new Work(await openPeer(order.settings), order.settings, monotonic, WARM_UP);
        return { ok: true };
      case 'prepare':
        opened().prepare(order.task);
        return { ok: true };
      case 'run':
        return { ok: true, timing: await opened().run(order.at) };
      case 'load':
        return { ok: true, timing: opened().loadAll() };
      case 'verify':
        await opened().verify(order.count, order.seed);
        return { ok: true };
      case 'describe':
        return { ok: true, description: opened().describe() };
      case 'close':
        await work?.close();
        return { ok: true };
    }
  };
  process.on('message', (order: Order) => {
    obey(order)
      .catch((error: Error): Answer => ({ ok: false, message: error.stack ?? error.message }))
      .then((answer) => process.send?.(answer));
  });
  // A benchmark that was killed must not leave its workers behind.
  process.on('disconnect', () => process.exit(0));
  // Ctrl-C in a terminal reaches the whole process group; the parent ends its workers.
  process.on('SIGINT', () => {});
}

serve();

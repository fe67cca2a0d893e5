import assert from 'node:assert/strict';
import { test } from 'node:test';
import { UnwaitedWrites } from '../../../src/pool/unwaited-writes.ts';
import { Batch, type Operation, REGION_STRIDE, Scratch } from '../../../src/verbs/index.ts';
import { addLoop, newMemory, newNetwork } from './support/rig.ts';

const WIDE = { readWindowNs: 1000, writeWindowNs: 1000 };

/** Writes a word without waiting, and reads it back by way of the same queue pair. */
function* writeAndRead(unwaited: UnwaitedWrites, address: number): Operation<number> {
  const read = new Scratch(8);
  yield* unwaited.word(address, 7, 0);
  yield new Batch().read(address, 8, read, 0);
  return read.i32[0];
}

test('an unwaited WRITE keeps its order on its queue pair and costs no round trip', () => {
  for (let seed = 1; seed <= 20; seed++) {
    const network = newNetwork({ seed, model: WIDE });
    const unwaited = new UnwaitedWrites();
    let next: Operation<number> | undefined = writeAndRead(unwaited, 64);
    const ended = addLoop(network, 0, 1, () => {
      const operation = next;
      next = undefined;
      return operation;
    });
    network.run();
    assert.equal(ended[0].result, 7);
    assert.equal(unwaited.underWay, 0);
    const took = ended[0].ended - ended[0].began;
    assert.ok(took < 2 * network.model.roundTripNs + 4 * 1000, `${took} ns`);
  }
});

test('on another queue pair nothing tells when it is executed', () => {
  let early = 0;
  for (let seed = 1; seed <= 40; seed++) {
    const memory = newMemory(2);
    const network = newNetwork({ seed, memory, model: WIDE, memoryNodes: 2 });
    const unwaited = new UnwaitedWrites();
    // A WRITE behind it to another node may be seen first: see UnwaitedWrites.settled.
    const operation = function* (): Operation<void> {
      for (let i = 0; i < 50; i++) yield* unwaited.word(REGION_STRIDE + 64 * i, 1, 0);
      const word = new Scratch(8);
      word.i32[0] = 1;
      yield new Batch().write(64, 8, word, 0);
      const seen = new Scratch(8);
      memory.read(REGION_STRIDE + 64 * 49, 8, seen, 0);
      if (seen.i32[0] === 0) early++;
    };
    let next: Operation<void> | undefined = operation();
    addLoop(network, 0, 1, () => {
      const begun = next;
      next = undefined;
      return begun;
    });
    network.run();
    assert.equal(unwaited.underWay, 0);
  }
  assert.ok(early > 0, 'so a client has to wait before it lets a block be re-used');
});

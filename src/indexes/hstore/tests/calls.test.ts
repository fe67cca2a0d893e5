/** Round trips of a client whose requests a server process answers: on a fabric that waits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimAhead, requestFor, traced } from '../../../store/tests/support/by-hand.ts';
import { AWAIT, Batch, type Fabric, type Operation } from '../../../verbs/index.ts';
import { ALWAYS, IF_PRESENT } from '../../contract.ts';
import { unitsOfRecord } from '../protocol/turn.ts';
import { type Client, get, getting, newClient, put, scanned } from './support/clients.ts';

/** What a memory node does: before the verbs behind a wait the server does its round. */
function waitingFabric({ pool }: Client, serve: () => void): Fabric {
  const { fabric } = pool;
  return {
    traffic: fabric.traffic,
    window: (address, bytes) => fabric.window(address, bytes),
    execute(batch) {
      for (let row = 0; row < batch.length; row++) {
        const { kind, address, bytes, offset, scratch } = batch;
        if (kind[row] === AWAIT) {
          serve();
          continue;
        }
        const one = new Batch().read(address[row], bytes[row], scratch[row], offset[row]);
        one.kind[0] = kind[row];
        fabric.execute(one);
      }
    },
  };
}

function clientAndServer(scope: Parameters<typeof newClient>[0]) {
  const client = newClient(scope);
  const server = newClient(scope, { handle: client.handle });
  const servers = server.index.server({ role: 'both' });
  let isUp = true;
  const round = () => {
    if (isUp) server.pool.run(servers.round());
  };
  const stop = () => {
    isUp = false;
    server.pool.run(servers.stop());
  };
  put(client, 'k', 'old');
  round();
  claimAhead(client, 1, unitsOfRecord(1));
  const fabric = waitingFabric(client, round);
  const trips = <T>(operation: Operation<T>) => traced(fabric, operation).trips;
  return { client, trips, round, stop };
}

/** Until the client knows that a server process answers: the server answers a poll. */
function learn({ pool, index }: Client, round: () => void): void {
  const operation = index.write(requestFor({ index }, 'k', 'first'), ALWAYS);
  for (let step = operation.next(); !step.done; step = operation.next()) {
    pool.fabric.execute(step.value);
    round();
  }
}

test('a GET takes two round trips, a write one call, a SCAN step one and the READs', (t) => {
  const { client, trips, round } = clientAndServer(t);
  learn(client, round);
  const { index } = client;
  const call = 'WRITE WRITE WRITE AWAIT READ READ READ';
  assert.deepEqual(trips(index.write(requestFor(client, 'k', 'new'), ALWAYS)), [call]);
  assert.equal(get(client, 'k'), 'new');
  assert.deepEqual(trips(index.write(requestFor(client, 'k2', 'other'), ALWAYS)), [call]);
  // The caller gets the old record, too.
  const updated = trips(index.write(requestFor(client, 'k', 'newer'), IF_PRESENT));
  assert.deepEqual(updated, [call, 'READ']);
  assert.deepEqual(trips(index.remove(requestFor(client, 'k2'))), [call, 'READ']);
  assert.deepEqual(trips(index.remove(requestFor(client, 'k2'))), [call]);
  assert.deepEqual(trips(getting(client, 'k')), ['READ', 'READ']);
  trips(scanned(client));
  const scan = 'WRITE WRITE AWAIT READ READ READ READ';
  assert.deepEqual(trips(scanned(client)), [scan, 'READ', 'READ']);
});

test('a client whose server has left is the server itself after one wait in vain', (t) => {
  const { client, trips, round, stop } = clientAndServer(t);
  learn(client, round);
  stop();
  const { index } = client;
  const kinds = trips(index.write(requestFor(client, 'k', 'alone'), ALWAYS));
  assert.equal(kinds.filter((one) => one.includes('AWAIT')).length, 1);
  assert.equal(get(client, 'k'), 'alone');
  // The next one takes the lease at once.
  assert.match(trips(index.write(requestFor(client, 'k', 'again'), ALWAYS))[0], /WRITE CAS$/);
  assert.equal(get(client, 'k'), 'again');
});

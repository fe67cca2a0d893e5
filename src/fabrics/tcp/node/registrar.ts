import {
  addressOf,
  Batch,
  CALL_HEAD_BYTES,
  type Operation,
  Scratch,
} from '../../../verbs/index.ts';
import { LOCK_NEEDLESS } from '../../shared/file-locks.ts';
import { LOCK_BYTES, SESSION_BYTES, writeLock, writeSession } from '../method-arguments.ts';
import { IS_CONNECTED, IS_LOCKED, LOCK, REVOKE, UNLOCK } from '../node-methods.ts';

const AREA_BYTES = CALL_HEAD_BYTES + SESSION_BYTES;

/**
 * Asks all memory nodes about a session, and ends it on all of them when one has lost it. If there
 * is a single node, clients may also map its file: its locks show them and this client each other.
 */
export class TcpRegistrar {
  readonly #nodes: number;

  constructor(nodes: number) {
    this.#nodes = nodes;
  }

  /**
   * A session needs all its connections, so a client that one node does not know is leaving or
   * gone. But it issues no more verbs only when every node has revoked it. A missing answer is an
   * error, and then the client does not count as gone.
   */
  *isGone(session: number, tagOnly: boolean): Operation<boolean> {
    const connected = yield* this.#ask(IS_CONNECTED, session, tagOnly);
    if (connected === this.#nodes) return false;
    // Several sessions may share a tag, so none may be revoked by it.
    if (tagOnly) return connected === 0;
    yield* this.revoke(session);
    return true;
  }

  *revoke(session: number): Operation<void> {
    yield* this.#ask(REVOKE, session, false);
  }

  *take(lock: number): Operation<number> {
    return this.#nodes > 1 ? LOCK_NEEDLESS : yield* this.#askOnly(LOCK, lock);
  }

  *release(lock: number): Operation<void> {
    yield* this.#askOnly(UNLOCK, lock);
  }

  *isTaken(lock: number): Operation<boolean> {
    return this.#nodes > 1 || (yield* this.#askOnly(IS_LOCKED, lock)) !== 0;
  }

  *#askOnly(method: number, lock: number): Operation<number> {
    const area = new Scratch(CALL_HEAD_BYTES + LOCK_BYTES);
    area.i32[0] = LOCK_BYTES;
    area.i32[1] = method;
    writeLock(area.u8.subarray(CALL_HEAD_BYTES), lock);
    yield new Batch().call(addressOf(0, 0), area.u8.length, area, 0);
    return area.u8[CALL_HEAD_BYTES];
  }

  /** Asks all nodes at once; returns how many answer yes. */
  *#ask(method: number, session: number, tagOnly: boolean): Operation<number> {
    const areas = new Scratch(this.#nodes * AREA_BYTES);
    const batch = new Batch();
    for (let node = 0; node < this.#nodes; node++) {
      const at = node * AREA_BYTES;
      areas.i32[at >> 2] = SESSION_BYTES;
      areas.i32[(at >> 2) + 1] = method;
      writeSession(areas.u8.subarray(at + CALL_HEAD_BYTES), session, tagOnly);
      // Regions are distributed in turn: region n is on node n.
      batch.call(addressOf(node, 0), AREA_BYTES, areas, at);
    }
    yield batch;
    let count = 0;
    for (let node = 0; node < this.#nodes; node++) {
      count += areas.u8[node * AREA_BYTES + CALL_HEAD_BYTES];
    }
    return count;
  }
}

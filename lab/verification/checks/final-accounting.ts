import type { Index } from '../../../src/indexes/contract.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import type { SimulatedClient } from '../schedules/client.ts';
import type { Deaths } from '../schedules/deaths.ts';
import type { Scenario } from '../schedules/scenario.ts';
import { account, type Holders } from './accounting.ts';
import { VerificationFailure } from './failure.ts';
import type { CallRecord } from './history.ts';
import type { ReclamationOracle } from './reclamation-oracle.ts';

/** A run in which no client is active any more. */
interface EndedRun {
  scenario: Scenario;
  clients: readonly SimulatedClient[];
  deaths: Deaths;
  oracle: ReclamationOracle;
  records: readonly CallRecord[];
  /** How often the table was lost. */
  losses: number;
}

/** Checks the table and the pool's memory, before and after sweeps. `open` opens the index. */
export function checkMemory(
  pool: LocalPool,
  open: (pool: LocalPool) => Index,
  run: EndedRun,
): void {
  const { scenario, clients, deaths, oracle, records, losses } = run;
  const { subject, chains } = scenario;
  const alive = clients.filter((client) => !client.left && !deaths.has(client));
  const living = alive.map((client) => client.pool);
  const died = clients.filter(({ dead, sweepsExpired }) => dead && sweepsExpired).length;
  const crashed = records.filter((record) => record.crashed).length + died;
  const givenUp = givenUpIn(run);
  const check = (index: Index, isLost: Holders['isLost']) => {
    const pending = blocksGivenUp(alive, scenario);
    const holders = { living, isLost, pending, ended: crashed + givenUp };
    const problems = account(pool, subject, index, holders);
    if (problems.length > 0) throw new VerificationFailure('structure', problems.join('; '));
  };
  // A client that dies while it retires the blocks of an unlinked chain, one by one, leaves blocks
  // that others had claimed. So do a server of other clients' calls, which dies in none of its own,
  // and a client that gives up a call which is done all the same.
  const { answersTheDead, unlinksMany } = subject;
  const unlinked =
    losses > 0 ||
    givenUp > 0 ||
    (deaths.count > 0 && answersTheDead === true) ||
    (crashed > 0 && (chains || unlinksMany === true));
  check(open(pool), (address, units) => {
    if (unlinked) return true;
    const holder = clients[oracle.holderOf(address) ?? 0];
    if (holder.left || deaths.has(holder)) return true;
    const byte = pool.layout.stateByteOf(address, units);
    return [...oracle.claimersOf(byte - (byte % 8))].some((claimer) =>
      deaths.has(clients[claimer]),
    );
  });
  // A sweep brings back all that the dead had: then nothing is lost any more.
  if (deaths.count === 0 && losses === 0 && givenUp === 0) return;
  sweepAll(alive, open);
  // Opening the index may carry out dead clients' calls that had no memory before. The blocks that
  // these calls replace need another sweep.
  const index = open(pool);
  sweepAll(alive, open);
  check(index, () => false);
}

/** First all let go of what they retired, as idle clients do: a sweep waits for that. */
function sweepAll(alive: readonly SimulatedClient[], open: (pool: LocalPool) => Index): void {
  for (const { pool } of alive) pool.run(pool.reclamation.goOffline());
  for (const { pool } of alive) pool.run(pool.reclamation.collect());
  for (const client of alive) client.sweepAtOnce(open);
}

function givenUpIn({ clients, records }: EndedRun): number {
  const calls = records.filter((record) => record.givenUp).length;
  return clients.reduce((sum, { gaveUp }) => sum + gaveUp, calls);
}

/** Requests of live clients that no longer wait for the answer. */
function blocksGivenUp(alive: readonly SimulatedClient[], { subject }: Scenario) {
  return alive.flatMap(({ plan, pool, index }) => {
    if (plan.haste === 0 || !index || !subject.pendingBlocks) return [];
    return pool.run(subject.pendingBlocks(index));
  });
}

import { control } from '../../../src/pool/control.ts';
import type { LocalPool } from '../../../src/pool/local-pool.ts';
import type { Canary } from '../canary.ts';

/**
 * A client that stops between reading the epoch and announcing it may announce one that is long
 * over. It must look again; this one takes its own announcement for the global epoch, tags what it
 * unlinks with the old one, and frees it while readers of the new one still hold it.
 */
export const unverifiedAnnouncementCanary: Canary = {
  name: 'an announcement that is not verified after it was made',
  caughtBy: 'reclamation',
  scenario: { crashes: false, swarm: { lanes: 1, restless: 100, crowded: false } },
  pool: trustOwnAnnouncement,
};

function trustOwnAnnouncement({ reclamation, membership }: LocalPool): void {
  const readEpoch = reclamation.readEpoch.bind(reclamation);
  reclamation.readEpoch = function* () {
    const announced = Number(yield* control.load(membership.epochWord));
    return announced === 0 ? yield* readEpoch() : announced;
  };
}

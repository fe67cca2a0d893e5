import type { Command } from '../../command.ts';

const ABSENT = -2;
const FOR_EVER = -1;

export const ttl = telling('ttl', 'Returns the seconds that a key has left', (at) =>
  seconds(left(at)),
);
export const pttl = telling('pttl', 'Returns the milliseconds that a key has left', left);
export const expiretime = telling('expiretime', 'Returns when a key expires, in seconds', seconds);
export const pexpiretime = telling(
  'pexpiretime',
  'Returns when a key expires, in milliseconds',
  (expiresAt) => expiresAt,
);

function telling(name: string, does: string, tell: (expiresAt: number) => number): Command {
  return {
    name,
    summary: `${does}; -1 for never, -2 if it does not exist.`,
    group: 'generic',
    arity: 2,
    flags: ['readonly', 'fast'],
    keys: [1, 1, 1],
    *run([, key], { store, reply }) {
      const found = yield* store.metadata(key);
      if (found === undefined) reply.integer(ABSENT);
      else reply.integer(Number.isFinite(found.expiresAt) ? tell(found.expiresAt) : FOR_EVER);
    },
  };
}

function left(expiresAt: number): number {
  return Math.max(0, expiresAt - Date.now());
}

function seconds(ms: number): number {
  return Math.floor((ms + 500) / 1000);
}

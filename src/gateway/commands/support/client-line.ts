import type { Client } from '../../server-view.ts';

/** Kinds of connections by which CLIENT LIST and CLIENT KILL choose. */
export type ClientKind = 'master' | 'normal' | 'pubsub' | 'replica';

export function kindOf({ state }: Client): ClientKind {
  return state.isSubscriber ? 'pubsub' : 'normal';
}

/** A connection in one line, as Redis describes it; what does not exist here is left out. */
export function clientLine(client: Client): string {
  const { state } = client;
  const now = Date.now();
  const { transaction } = state;
  const fields: [name: string, value: string | number][] = [
    ['id', state.id],
    ['addr', client.address],
    ['laddr', client.localAddress],
    ['name', state.name],
    ['age', Math.floor((now - client.connectedAt) / 1000)],
    ['idle', Math.floor((now - client.activeAt) / 1000)],
    ['flags', flagsOf(client)],
    ['db', state.database],
    ['sub', state.channels.size],
    ['psub', state.patterns.size],
    ['multi', transaction === undefined ? -1 : transaction.queued.length],
    ['qbuf', client.inputBytes],
    ['multi-mem', transaction?.bytes ?? 0],
    ['omem', client.outputBytes],
    ['tot-mem', client.inputBytes + client.outputBytes + state.heldBytes],
    ['cmd', state.lastCommand],
    ['user', state.user],
    ['resp', client.protocol],
    ['lib-name', state.libraryName],
    ['lib-ver', state.libraryVersion],
  ];
  return fields.map(([name, value]) => `${name}=${value}`).join(' ');
}

function flagsOf({ state }: Client): string {
  let flags = '';
  if (state.isMonitor) flags += 'O';
  if (state.isSubscriber) flags += 'P';
  if (state.transaction !== undefined) flags += 'x';
  if (state.isKept) flags += 'e';
  return flags || 'N';
}

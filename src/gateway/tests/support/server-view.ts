import { ClientMemory } from '../../connections/client-memory.ts';
import { Pause } from '../../connections/pause.ts';
import { Databases } from '../../databases.ts';
import { OpenGate } from '../../gate.ts';
import { Channels } from '../../messages/channels.ts';
import { MessageBus } from '../../messages/message-bus.ts';
import { Monitors } from '../../observation/monitors.ts';
import { SlowLog } from '../../observation/slow-log.ts';
import { type ServerView, Totals } from '../../server-view.ts';
import { GATEWAY_LIMITS, Settings } from '../../settings.ts';
import type { FakeStore } from './fake-store.ts';

/** What commands see of a server, without one. */
export function serverView({ operations, pool }: FakeStore, limits = GATEWAY_LIMITS): ServerView {
  const settings = new Settings(1);
  const channels = new Channels();
  const hooks = { pool, onNotify: () => {}, onError: () => {} };
  return {
    host: '',
    port: 0,
    limits,
    settings,
    memory: new ClientMemory(limits.clientBytesMax),
    clients: new Map(),
    databases: new Databases(operations, undefined),
    pool,
    gate: new OpenGate(),
    passwords: undefined,
    pause: new Pause(),
    channels,
    messages: new MessageBus(channels, undefined, hooks),
    monitors: new Monitors(),
    slowLog: new SlowLog(settings),
    startedAt: 0,
    totals: Object.assign(new Totals(), { connections: 1 }),
  };
}

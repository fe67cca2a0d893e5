import type { Operation } from '../../../verbs/index.ts';
import { keyword } from '../../arguments.ts';
import { type Command, type CommandContext, REDIS_VERSION } from '../../command.ts';

type Fields = readonly (readonly [name: string, value: string | number])[];

interface Section {
  readonly title: string;
  /** Only when asked for by name or with `all`, because it takes a walk over the whole store. */
  readonly costly?: boolean;
  fields?(context: CommandContext): Fields;
  /** Of a section that asks the stores. */
  read?(context: CommandContext): Operation<Fields>;
}

const server: Section = {
  title: 'Server',
  fields: ({ server, store }) => [
    ['redis_version', REDIS_VERSION],
    ['redis_mode', 'standalone'],
    ['os', `${process.platform} ${process.arch}`],
    ['arch_bits', 64],
    ['process_id', process.pid],
    ['tcp_port', server.port],
    ['server_time_usec', Date.now() * 1000],
    ['uptime_in_seconds', Math.floor((Date.now() - server.startedAt) / 1000)],
    ['uptime_in_days', Math.floor((Date.now() - server.startedAt) / 86_400_000)],
    ['node_version', process.versions.node],
    ['stepwell_store', store.name],
  ],
};

const clients: Section = {
  title: 'Clients',
  fields: ({ server }) => {
    const states = [...server.clients.values()].map(({ state }) => state);
    return [
      ['connected_clients', states.length],
      ['maxclients', server.settings.maxConnections],
      ['pubsub_clients', states.filter(({ isSubscriber }) => isSubscriber).length],
      ['watching_clients', states.filter(({ watched }) => watched.size > 0).length],
      ['total_watched_keys', states.reduce((sum, { watched }) => sum + watched.size, 0)],
      ['blocked_clients', 0],
    ];
  },
};

const memory: Section = {
  title: 'Memory',
  fields: ({ server }) => {
    const { rss, heapUsed, external } = process.memoryUsage();
    return [
      ['used_memory', heapUsed + external],
      ['used_memory_rss', rss],
      ['mem_clients_normal', server.memory.bytes],
      ['maxmemory_clients', server.memory.bytesMax],
      ['maxmemory', 0],
      ['maxmemory_policy', 'noeviction'],
    ];
  },
};

/** Clients wait until `loading` is 0; a store is never half loaded. */
const persistence: Section = {
  title: 'Persistence',
  fields: () => [['loading', 0]],
};

const stats: Section = {
  title: 'Stats',
  fields: ({ server: { totals, channels, messages, slowLog } }) => [
    ['total_connections_received', totals.connections],
    ['total_commands_processed', totals.commands],
    ['total_net_input_bytes', totals.bytesIn],
    ['total_net_output_bytes', totals.bytesOut],
    ['rejected_connections', totals.rejectedConnections],
    ['evicted_clients', totals.evictedConnections],
    ['total_error_replies', totals.errors],
    ['keyspace_hits', totals.hits],
    ['keyspace_misses', totals.misses],
    ['pubsub_channels', channels.channelCount],
    ['pubsub_patterns', channels.patternCount],
    ['stepwell_lost_messages', messages.lost],
    ['stepwell_unsent_events', messages.unsent],
    ['slowlog_length', slowLog.length],
  ],
};

const replication: Section = {
  title: 'Replication',
  fields: () => [
    ['role', 'master'],
    ['connected_slaves', 0],
  ],
};

const cpu: Section = {
  title: 'CPU',
  fields: () => {
    const { user, system } = process.cpuUsage();
    return [
      ['used_cpu_sys', (system / 1e6).toFixed(6)],
      ['used_cpu_user', (user / 1e6).toFixed(6)],
    ];
  },
};

/** `expires` and `avg_ttl` would take a look at each record. */
const keyspace: Section = {
  title: 'Keyspace',
  *read({ server }) {
    const fields: [name: string, value: string][] = [];
    for (const { index, store, keyCount } of server.databases.existing()) {
      const keys = yield* keyCount.of(store);
      if (keys > 0) fields.push([`db${index}`, `keys=${keys},expires=0,avg_ttl=0`]);
    }
    return fields;
  },
};

const stepwell: Section = {
  title: 'Stepwell',
  costly: true,
  *read({ store }) {
    const { traffic, resizes, memory, ...of } = yield* store.stats();
    return [
      ['stepwell_records', of.records],
      ['stepwell_slots', of.slots],
      ['stepwell_load_factor', of.loadFactor.toFixed(4)],
      ['stepwell_global_depth', of.globalDepth],
      ['stepwell_subtables', of.subtables],
      ['stepwell_memory_records', memory.records],
      ['stepwell_memory_subtables', memory.subtables],
      ['stepwell_memory_directory', memory.directory],
      ['stepwell_round_trips', traffic.roundTrips],
      ['stepwell_bytes_read', traffic.bytesRead],
      ['stepwell_bytes_written', traffic.bytesWritten],
      ['stepwell_splits', resizes.splits],
      ['stepwell_doublings', resizes.doublings],
    ];
  },
};

const SECTIONS: readonly Section[] = [
  server,
  clients,
  memory,
  persistence,
  stats,
  replication,
  cpu,
  keyspace,
  stepwell,
];

export const info: Command = {
  name: 'info',
  summary: 'Reports on the server, section by section; the section stepwell walks the store.',
  group: 'server',
  arity: -1,
  flags: ['loading', 'stale'],
  *run(request, context) {
    const asked = new Set(request.slice(1).map(keyword));
    const everything = asked.has('ALL') || asked.has('EVERYTHING');
    const usual = asked.size === 0 || asked.has('DEFAULT');
    const wanted = SECTIONS.filter(
      ({ title, costly }) => everything || (usual && !costly) || asked.has(title.toUpperCase()),
    );
    const texts: string[] = [];
    for (const { title, fields, read } of wanted) {
      const found = fields?.(context) ?? (read && (yield* read(context))) ?? [];
      const lines = found.map(([name, value]) => `${name}:${value}\r\n`);
      texts.push(`# ${title}\r\n${lines.join('')}`);
    }
    context.reply.verbatim(texts.join('\r\n'));
  },
};

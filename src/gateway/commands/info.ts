import { type Command, type CommandContext, keyword, REDIS_VERSION } from '../command.ts';

type Fields = readonly (readonly [name: string, value: string | number])[];

interface Section {
  readonly title: string;
  /** Only when asked for by name or with `all`, because it takes a walk over the whole store. */
  readonly costly?: boolean;
  fields(context: CommandContext): Fields;
}

const server: Section = {
  title: 'Server',
  fields: ({ server, store }) => [
    ['redis_version', REDIS_VERSION],
    ['redis_mode', 'standalone'],
    ['process_id', process.pid],
    ['tcp_port', server.port],
    ['uptime_in_seconds', Math.floor((Date.now() - server.startedAt) / 1000)],
    ['node_version', process.versions.node],
    ['stepwell_store', store.name],
  ],
};

const clients: Section = {
  title: 'Clients',
  fields: ({ server }) => [
    ['connected_clients', server.connections],
    ['maxclients', server.maxConnections],
  ],
};

const memory: Section = {
  title: 'Memory',
  fields: ({ server }) => [
    ['used_memory_rss', process.memoryUsage.rss()],
    ['mem_clients_normal', server.memory.bytes],
    ['maxmemory_clients', server.limits.clientBytesMax],
    ['maxmemory', 0],
    ['maxmemory_policy', 'noeviction'],
  ],
};

/** Clients wait until `loading` is 0; a store is never half loaded. */
const persistence: Section = {
  title: 'Persistence',
  fields: () => [['loading', 0]],
};

const stats: Section = {
  title: 'Stats',
  fields: ({ server: { totals } }) => [
    ['total_connections_received', totals.connections],
    ['total_commands_processed', totals.commands],
    ['total_net_input_bytes', totals.bytesIn],
    ['total_net_output_bytes', totals.bytesOut],
    ['rejected_connections', totals.rejectedConnections],
    ['evicted_clients', totals.evictedConnections],
    ['total_error_replies', totals.errors],
  ],
};

const replication: Section = {
  title: 'Replication',
  fields: () => [
    ['role', 'master'],
    ['connected_slaves', 0],
  ],
};

const keyspace: Section = {
  title: 'Keyspace',
  fields: ({ store }) => {
    const keys = store.size;
    return keys === 0 ? [] : [['db0', `keys=${keys},expires=0,avg_ttl=0`]];
  },
};

const stepwell: Section = {
  title: 'Stepwell',
  costly: true,
  fields: ({ store }) => {
    const { traffic, resizes, memory, ...of } = store.stats();
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
  keyspace,
  stepwell,
];

export const info: Command = {
  name: 'info',
  summary: 'Reports on the server, section by section; the section stepwell walks the store.',
  group: 'server',
  arity: -1,
  flags: ['loading', 'stale'],
  run(request, context) {
    const asked = new Set(request.slice(1).map(keyword));
    const everything = asked.has('ALL') || asked.has('EVERYTHING');
    const usual = asked.size === 0 || asked.has('DEFAULT');
    const wanted = SECTIONS.filter(
      ({ title, costly }) => everything || (usual && !costly) || asked.has(title.toUpperCase()),
    );
    context.reply.verbatim(wanted.map((section) => format(section, context)).join('\r\n'));
  },
};

function format(section: Section, context: CommandContext): string {
  const lines = section.fields(context).map(([name, value]) => `${name}:${value}\r\n`);
  return `# ${section.title}\r\n${lines.join('')}`;
}

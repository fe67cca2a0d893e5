import type { Operation } from '../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../arguments.ts';
import { type Command, type CommandContext, REDIS_VERSION, signature } from '../command.ts';
import type { Request } from '../protocol/request-reader.ts';
import { container } from './support/container.ts';

export const dbsize: Command = {
  ...signature('dbsize', 'server', 'readonly', 'fast'),
  summary: 'Returns the number of keys.',
  *run(_request, { store, reply }) {
    reply.integer(yield* store.size());
  },
};

export const flushdb: Command = {
  ...signature('flushdb [ASYNC|SYNC]', 'server', 'write'),
  summary: 'Deletes all keys of the database.',
  *run(request, context) {
    checkMode(request);
    yield* context.store.clear();
    context.reply.ok();
  },
};

export const flushall: Command = {
  ...signature('flushall [ASYNC|SYNC]', 'server', 'write'),
  summary: 'Deletes all keys of all databases.',
  *run(request, context) {
    checkMode(request);
    for (const { store } of context.server.databases.existing()) yield* store.clear();
    context.reply.ok();
  },
};

/** ASYNC is allowed, but the keys are always gone before the reply. */
function checkMode(request: Request): void {
  const mode = request.length === 1 ? 'SYNC' : keyword(request[1]);
  if (request.length > 2 || (mode !== 'SYNC' && mode !== 'ASYNC')) {
    throw new ReplyError(SYNTAX_ERROR);
  }
}

export const time: Command = {
  ...signature('time', 'server', 'fast', 'loading', 'stale'),
  summary: 'Returns the time in seconds since 1970, and the microseconds beyond them.',
  run(_request, { reply }) {
    const now = Date.now();
    reply.array(2);
    reply.bulk(String(Math.floor(now / 1000)));
    reply.bulk(String((now % 1000) * 1000));
  },
};

export const monitor: Command = {
  ...signature('monitor', 'server', 'admin', 'loading', 'stale'),
  summary: 'Shows every command that this server runs, until RESET or the end of the connection.',
  run(_request, { reply, server, state, client }) {
    // Before EXEC a transaction queues the command instead of running it.
    if (state.transaction !== undefined) {
      throw new ReplyError("ERR MONITOR isn't allowed for DENY BLOCKING client");
    }
    state.isMonitor = true;
    server.monitors.add(client);
    reply.ok();
  },
};

const inServer = (syntax: string) => signature(syntax, 'server', 'admin', 'loading', 'stale');
const COUNT_DEFAULT = 10n;
const NOT_A_COUNT = 'ERR count should be greater than or equal to -1';

const slowlogGet: Command = {
  ...inServer('slowlog|get [count]'),
  summary: 'Returns the latest slow commands: 10 or the given number, -1 for all.',
  run(request, { reply, server: { slowLog } }) {
    const count = request.length > 2 ? parseInteger(request[2], NOT_A_COUNT) : COUNT_DEFAULT;
    if (count < -1n) throw new ReplyError(NOT_A_COUNT);
    const isAll = count < 0n || count > slowLog.length;
    const commands = count === 0n ? [] : slowLog.latest(isAll ? slowLog.length : Number(count));
    reply.array(commands.length);
    for (const { id, at, microseconds, words, address, name } of commands) {
      reply.array(6);
      reply.integer(id);
      reply.integer(at);
      reply.integer(microseconds);
      reply.array(words.length);
      for (const word of words) reply.bulk(word);
      reply.bulk(address);
      reply.bulk(name);
    }
  },
};

const slowlogLen: Command = {
  ...inServer('slowlog|len'),
  summary: 'Returns how many slow commands are kept.',
  run(_request, { reply, server }) {
    reply.integer(server.slowLog.length);
  },
};

const slowlogReset: Command = {
  ...inServer('slowlog|reset'),
  summary: 'Forgets the slow commands.',
  run(_request, { reply, server }) {
    server.slowLog.clear();
    reply.ok();
  },
};

export const slowlog = container({
  ...inServer('slowlog subcommand [argument ...]'),
  summary: 'Lists commands that took longer than slowlog-log-slower-than microseconds.',
  subcommands: [slowlogGet, slowlogLen, slowlogReset],
});

type Fields = readonly (readonly [name: string, value: string | number])[];

interface Section {
  readonly title: string;
  /** Shown only by name or with `all`, because it walks the whole store. */
  readonly costly?: boolean;
  fields?(context: CommandContext): Fields;
  /** For sections that read stores. */
  read?(context: CommandContext): Operation<Fields>;
}

const SECTIONS: readonly Section[] = [
  {
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
  },
  {
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
  },
  {
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
  },
  // Clients wait until `loading` is 0. Here a store is never half loaded.
  {
    title: 'Persistence',
    fields: () => [['loading', 0]],
  },
  {
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
      ['pubsub_channels', channels.count('channels')],
      ['pubsub_patterns', channels.count('patterns')],
      ['stepwell_lost_messages', messages.lost],
      ['stepwell_unsent_events', messages.unsent],
      ['slowlog_length', slowLog.length],
    ],
  },
  {
    title: 'Replication',
    fields: () => [
      ['role', 'master'],
      ['connected_slaves', 0],
    ],
  },
  {
    title: 'CPU',
    fields: () => {
      const { user, system } = process.cpuUsage();
      return [
        ['used_cpu_sys', (system / 1e6).toFixed(6)],
        ['used_cpu_user', (user / 1e6).toFixed(6)],
      ];
    },
  },
  // `expires` and `avg_ttl` would need a look at each record.
  {
    title: 'Keyspace',
    *read({ server }) {
      const fields: [name: string, value: string][] = [];
      for (const { index, store, keyCount } of server.databases.existing()) {
        const keys = yield* keyCount.of(store);
        if (keys > 0) fields.push([`db${index}`, `keys=${keys},expires=0,avg_ttl=0`]);
      }
      return fields;
    },
  },
  {
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
  },
];

export const info: Command = {
  ...signature('info [section ...]', 'server', 'loading', 'stale'),
  summary: 'Reports on the server, section by section; the section stepwell walks the store.',
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

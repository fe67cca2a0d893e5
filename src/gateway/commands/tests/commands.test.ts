import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { isMissing } from '../../../store/tests/support/missing-tools.ts';
import { COMMANDS } from '../../server.ts';
import { array, exchange, type Rig, startServer } from '../../tests/support/exchange.ts';
import { type RealRedis, startRedis } from '../../tests/support/redis-server.ts';
import { readTranscripts } from './support/transcript.ts';

type Words = string | string[];

interface Case {
  name: string;
  /** Parted by `; `, their words by blanks. */
  requests: string | Words[];
  /** Lines of all replies in RESP2, parted by `; `. */
  replies: string | string[];
  /** In RESP3, where more differs than nulls. */
  replies3?: string | string[];
  /** Why Redis 7 answers something else. */
  differs?: string;
  /** Why Redis answers the same or not: neither is asked for. */
  mayDiffer?: string;
}

const NOT_AN_INTEGER = '-ERR value is not an integer or out of range';
const INVALID_NAME = '-ERR Client names cannot contain spaces, newlines or special characters.';

function wrongNumber(name: string): string {
  return `-ERR wrong number of arguments for '${name}' command`;
}

const CASES: Case[] = [
  { name: 'PING', requests: 'PING; ping hi', replies: ['+PONG', '$2', 'hi'] },
  { name: 'PING with too much', requests: 'PING a b', replies: [wrongNumber('ping')] },
  {
    name: 'ECHO',
    requests: ['ECHO hi', ['EcHo', 'a\r\nb']],
    replies: ['$2', 'hi', '$4', 'a\r\nb'],
  },
  { name: 'ECHO without argument', requests: 'ECHO', replies: [wrongNumber('echo')] },
  {
    name: 'unknown commands',
    requests: [
      'NOSUCH a bc',
      'nosuch',
      ['NO\r\nSUCH'],
      ['x'.repeat(200), 'y'.repeat(100), 'z'.repeat(100), 'more'],
    ],
    replies: [
      "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'bc' ",
      "-ERR unknown command 'nosuch', with args beginning with: ",
      "-ERR unknown command 'NO  SUCH', with args beginning with: ",
      `-ERR unknown command '${'x'.repeat(128)}', with args beginning with: ` +
        `'${'y'.repeat(100)}' '${'z'.repeat(25)}' `,
    ],
  },
  {
    name: 'GET and SET',
    requests: ['GET a', 'SET a 1', 'GET a', 'set a 22', 'gEt a', ['SET', '', ''], ['GET', '']],
    replies: '$-1; +OK; $1; 1; +OK; $2; 22; +OK; $0; ',
  },
  {
    name: 'ranges of a store without order',
    requests: 'SW.RANGE - +; SW.COUNT - +; SW.REMRANGE - +',
    replies: Array(3).fill(
      '-ERR SW_UNSUPPORTED store default has the index race, whose keys have no order; ' +
        'create it with the index chime or hstore for ranges',
    ),
    differs: 'Redis has no such commands',
  },
  {
    name: 'GET with too much',
    requests: 'GET; GET a b',
    replies: [wrongNumber('get'), wrongNumber('get')],
  },
  {
    name: 'bytes of all kinds',
    requests: [
      ['SET', '\x00\xff\r\n', '\xfe\x00\r\n$1\r\n'],
      ['GET', '\x00\xff\r\n'],
    ],
    replies: ['+OK', '$8', '\xfe\x00\r\n$1\r\n'],
  },
  {
    name: 'SET NX and XX',
    requests: 'SET a 1 XX; SET a 1 NX; SET a 2 nx; GET a; SET a 3 xx; GET a; SET a 4 NX NX',
    replies: '$-1; +OK; $-1; $1; 1; +OK; $1; 3; $-1',
  },
  {
    name: 'SET GET',
    requests:
      'SET a 1 GET; SET a 2 GET; SET a 3 NX GET; GET a; SET a 4 GET XX; GET a; ' +
      'SET b 1 NX GET; GET b; SET c 1 XX GET; EXISTS c',
    replies: '$-1; $1; 1; $1; 2; $1; 2; $1; 2; $1; 4; $-1; $1; 1; $-1; :0',
  },
  {
    name: 'SET with wrong options',
    requests: 'SET a 1 NX XX; SET a 1 XX NX; SET a 1 NO; SET a; EXISTS a',
    replies: [
      '-ERR syntax error',
      '-ERR syntax error',
      '-ERR syntax error',
      wrongNumber('set'),
      ':0',
    ],
  },
  {
    name: 'SETNX, GETSET and GETDEL',
    requests: 'SETNX a 1; SETNX a 2; GETSET a 3; GETSET b 4; GETDEL a; GETDEL a; GET b',
    replies: ':1; :0; $1; 1; $-1; $1; 3; $-1; $1; 4',
  },
  {
    name: 'MSET and MGET',
    requests: 'MSET a 1 b 2; MGET a x b; MSET a 1 a 2; MGET a a; MSET; MSET a; MSET a 1 b; MGET',
    replies: [
      '+OK',
      '*3',
      '$1',
      '1',
      '$-1',
      '$1',
      '2',
      '+OK',
      '*2',
      '$1',
      '2',
      '$1',
      '2',
      wrongNumber('mset'),
      wrongNumber('mset'),
      wrongNumber('mset'),
      wrongNumber('mget'),
    ],
  },
  {
    name: 'DEL, UNLINK and EXISTS',
    requests:
      'MSET a 1 b 2 c 3; EXISTS a b x a; DEL a x a; UNLINK b c x; DEL a; EXISTS a; DEL; ' +
      'UNLINK; EXISTS',
    replies: [
      '+OK',
      ':3',
      ':1',
      ':2',
      ':0',
      ':0',
      wrongNumber('del'),
      wrongNumber('unlink'),
      wrongNumber('exists'),
    ],
  },
  {
    name: 'INCR, DECR, INCRBY and DECRBY',
    requests: 'INCR n; INCR n; DECR n; INCRBY n 41; DECRBY n 50; INCRBY n -5; INCRBY n 0; GET n',
    replies: ':1; :2; :1; :42; :-8; :-13; :-13; $3; -13',
  },
  {
    name: '64-bit integers',
    requests:
      'SET n 9223372036854775806; INCR n; INCR n; INCRBY n 2; SET m -9223372036854775807; ' +
      'DECR m; DECR m; DECRBY m 1; DECRBY z -9223372036854775808; ' +
      'INCRBY z -9223372036854775808',
    replies:
      '+OK; :9223372036854775807; -ERR increment or decrement would overflow; ' +
      '-ERR increment or decrement would overflow; +OK; :-9223372036854775808; ' +
      '-ERR increment or decrement would overflow; ' +
      '-ERR increment or decrement would overflow; -ERR decrement would overflow; ' +
      ':-9223372036854775808',
  },
  {
    name: 'what is no integer',
    requests: [
      'SET s x',
      'INCR s',
      'INCRBY n 1.5',
      'INCRBY n 01',
      'INCRBY n +1',
      'DECRBY n -0',
      ['INCRBY', 'n', ' 1'],
      ['INCRBY', 'n', ''],
      'INCRBY n 9223372036854775808',
      'DECRBY n 99999999999999999999999',
      'EXISTS n',
      'INCRBY n',
      'INCR',
      'DECR a b',
      'DECRBY n 1 2',
    ],
    replies: [
      '+OK',
      ...Array<string>(9).fill(NOT_AN_INTEGER),
      ':0',
      wrongNumber('incrby'),
      wrongNumber('incr'),
      wrongNumber('decr'),
      wrongNumber('decrby'),
    ],
  },
  {
    name: 'STRLEN',
    requests: 'SET a 12345; STRLEN a; STRLEN x',
    replies: '+OK; :5; :0',
  },
  { name: 'TYPE', requests: 'SET a 1; TYPE a; TYPE x', replies: ['+OK', '+string', '+none'] },
  {
    name: 'DBSIZE, FLUSHDB and FLUSHALL',
    requests:
      'DBSIZE; MSET a 1 b 2; DBSIZE; FLUSHDB; DBSIZE; SET a 1; FLUSHALL ASYNC; DBSIZE; ' +
      'flushdb sync; FLUSHALL x; FLUSHDB SYNC SYNC; DBSIZE x',
    replies: [
      ':0',
      '+OK',
      ':2',
      '+OK',
      ':0',
      '+OK',
      '+OK',
      ':0',
      '+OK',
      '-ERR syntax error',
      '-ERR syntax error',
      wrongNumber('dbsize'),
    ],
  },
  {
    name: 'SELECT',
    requests: 'SELECT 0; SELECT -1; SELECT 99; SELECT x; SELECT',
    replies: [
      '+OK',
      '-ERR DB index is out of range',
      '-ERR DB index is out of range',
      NOT_AN_INTEGER,
      wrongNumber('select'),
    ],
  },
  {
    name: 'EXEC, DISCARD and UNWATCH without a transaction',
    requests: 'EXEC; DISCARD; UNWATCH; MULTI a; EXEC',
    replies: [
      '-ERR EXEC without MULTI',
      '-ERR DISCARD without MULTI',
      '+OK',
      wrongNumber('multi'),
      '-ERR EXEC without MULTI',
    ],
  },
  {
    name: 'AUTH without a password that could be right',
    requests: 'AUTH secret; SET a 1',
    replies: [
      '-ERR AUTH <password> called without any password configured for the default user. ' +
        'Are you sure your configuration is correct?',
      '+OK',
    ],
  },
  {
    name: 'RESET',
    requests: 'CLIENT SETNAME me; RESET; CLIENT GETNAME',
    replies: '+OK; +RESET; $-1',
    replies3: '+OK; +RESET; $-1',
  },
  {
    name: 'CLIENT REPLY ON',
    requests: 'CLIENT REPLY ON; CLIENT REPLY NO; PING',
    replies: '+OK; -ERR syntax error; +PONG',
  },
  { name: 'SCAN of nothing', requests: 'SCAN 0 COUNT 9999', replies: ['*2', '$1', '0', '*0'] },
  {
    name: 'SCAN',
    requests:
      'SET k:1 v; SCAN 0 COUNT 9999; scan 0 match k* count 9999 type string; ' +
      'SCAN 0 COUNT 9999 MATCH x*; ' +
      'SCAN 0 TYPE list; SCAN 0 COUNT 999999999999',
    replies:
      '+OK; *2; $1; 0; *1; $3; k:1; *2; $1; 0; *1; $3; k:1; *2; $1; 0; *0; *2; $1; 0; *0; ' +
      '*2; $1; 0; *1; $3; k:1',
  },
  {
    name: 'SCAN with wrong arguments',
    requests: 'SCAN x; SCAN 0 COUNT 0; SCAN 0 COUNT x; SCAN 0 MATCH; SCAN 0 NO x; SCAN',
    replies: [
      '-ERR invalid cursor',
      '-ERR syntax error',
      NOT_AN_INTEGER,
      '-ERR syntax error',
      '-ERR syntax error',
      wrongNumber('scan'),
    ],
  },
  {
    name: 'SCAN with a negative cursor',
    requests: 'SCAN -1',
    replies: ['-ERR invalid cursor'],
    differs: 'Redis takes -1 for a cursor of 64 bits',
  },
  {
    name: 'HELLO with wrong arguments',
    requests: [
      'HELLO 4',
      'HELLO 1',
      'HELLO x',
      'HELLO 2 NO',
      'HELLO 2 SETNAME',
      ['HELLO', '2', 'SETNAME', 'a b'],
      'CLIENT GETNAME',
    ],
    replies: [
      '-NOPROTO unsupported protocol version',
      '-NOPROTO unsupported protocol version',
      '-ERR Protocol version is not an integer or out of range',
      "-ERR Syntax error in HELLO option 'NO'",
      "-ERR Syntax error in HELLO option 'SETNAME'",
      INVALID_NAME,
      '$-1',
    ],
  },
  {
    name: 'CLIENT names',
    requests: [
      'CLIENT GETNAME',
      'CLIENT SETNAME me',
      'client getname',
      ['CLIENT', 'SETNAME', 'a b'],
      'CLIENT GETNAME',
      ['CLIENT', 'SETNAME', ''],
      'CLIENT GETNAME',
      'CLIENT SETNAME',
      'CLIENT ID x',
    ],
    replies: [
      '$-1',
      '+OK',
      '$2',
      'me',
      INVALID_NAME,
      '$2',
      'me',
      '+OK',
      '$-1',
      wrongNumber('client|setname'),
      wrongNumber('client|id'),
    ],
  },
  {
    name: 'CLIENT SETINFO',
    requests: [
      'CLIENT SETINFO lib-name x',
      'CLIENT SETINFO LIB-VER 1.0',
      'CLIENT SETINFO no x',
      ['CLIENT', 'SETINFO', 'lib-ver', 'a b'],
    ],
    replies: [
      '+OK',
      '+OK',
      "-ERR Unrecognized option 'no'",
      '-ERR lib-ver cannot contain spaces, newlines or special characters.',
    ],
    mayDiffer: 'Redis has it from 7.2 on',
  },
  {
    name: 'subcommands that do not exist',
    requests:
      'CLIENT; CLIENT NoSuch x; CONFIG; CONFIG NOSUCH; CONFIG GET; COMMAND NOSUCH; ' +
      'COMMAND COUNT x',
    replies: [
      wrongNumber('client'),
      "-ERR unknown subcommand 'NoSuch'. Try CLIENT HELP.",
      wrongNumber('config'),
      "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.",
      wrongNumber('config|get'),
      "-ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP.",
      wrongNumber('command|count'),
    ],
  },
  {
    name: 'CONFIG GET',
    requests: 'CONFIG GET save; CONFIG GET SAV?; CONFIG GET appendonl*; CONFIG GET nosuch',
    replies: '*2; $4; save; $0; ; *2; $4; save; $0; ; *2; $10; appendonly; $2; no; *0',
    replies3: '%1; $4; save; $0; ; %1; $4; save; $0; ; %1; $10; appendonly; $2; no; %0',
  },
  {
    name: 'CONFIG GET of several',
    requests: 'CONFIG GET save appendonly save',
    replies: '*4; $10; appendonly; $2; no; $4; save; $0; ',
    replies3: '%2; $10; appendonly; $2; no; $4; save; $0; ',
    mayDiffer: 'the order is free',
  },
  {
    name: 'COMMAND COUNT',
    requests: 'COMMAND COUNT',
    replies: [`:${COMMANDS.all.length}`],
    differs: 'Redis has more commands',
  },
  {
    name: 'COMMAND INFO',
    requests: 'COMMAND INFO get nosuch config|get; COMMAND INFO MSET',
    replies:
      '*3; *10; $3; get; :2; *2; +readonly; +fast; :1; :1; :1; *3; +@fast; +@read; ' +
      '+@string; *0; *0; *0; $-1; *10; $10; config|get; :-3; *3; +admin; +loading; +stale; ' +
      ':0; :0; :0; *1; +@slow; *0; *0; *0; *1; *10; $4; mset; :-3; *2; +write; +denyoom; :1; ' +
      ':-1; :2; *3; +@slow; +@write; +@string; *0; *0; *0',
    replies3:
      '*3; *10; $3; get; :2; ~2; +readonly; +fast; :1; :1; :1; ~3; +@fast; +@read; ' +
      '+@string; *0; *0; *0; _; *10; $10; config|get; :-3; ~3; +admin; +loading; +stale; :0; :0; ' +
      ':0; ~1; +@slow; *0; *0; *0; *1; *10; $4; mset; :-3; ~2; +write; +denyoom; :1; :-1; ' +
      ':2; ~3; +@slow; +@write; +@string; *0; *0; *0',
    differs: 'hints and key specifications stay empty',
  },
  {
    name: 'COMMAND DOCS',
    requests: 'COMMAND DOCS dbsize nosuch DBSIZE',
    replies:
      '*2; $6; dbsize; *4; $7; summary; $27; Returns the number of keys.; $5; group; $6; ' +
      'server',
    replies3:
      '%1; $6; dbsize; %2; $7; summary; $27; Returns the number of keys.; $5; group; $6; ' +
      'server',
    differs: 'the summaries are our own',
  },
  {
    name: 'CONFIG HELP',
    requests: 'CONFIG HELP',
    replies:
      '*11; +CONFIG <subcommand> [<arg> ...]. Subcommands are:; +GET; ' +
      '+    Returns the parameters whose names match one of the patterns.; +RESETSTAT; ' +
      '+    Begins the counters of INFO anew.; +REWRITE; ' +
      '+    Refused: the server has no file of parameters.; +SET; ' +
      '+    Sets parameters, all or none, until the server ends.; +HELP; ' +
      '+    Lists the subcommands.',
    differs: 'there are fewer subcommands',
  },
  {
    name: 'INFO of a section',
    requests: 'INFO persistence; INFO nosuch',
    replies: '$26; # Persistence; loading:0; ; $0; ',
    replies3: '=30; txt:# Persistence; loading:0; ; =4; txt:',
    differs: 'there is less to report',
  },
  { name: 'QUIT', requests: 'SET a 1; QUIT; SET a 2', replies: ['+OK', '+OK'] },
];

/** The words of each request. */
function split(requests: Case['requests']): string[][] {
  const list = typeof requests === 'string' ? requests.split('; ') : requests;
  return list.map((words) => (typeof words === 'string' ? words.split(' ') : words));
}

function encode(requests: Case['requests']): Buffer {
  return Buffer.concat(
    split(requests).map((words) => array(...words.map((word) => Buffer.from(word, 'latin1')))),
  );
}

function lines(replies: Case['replies']): string {
  const list = typeof replies === 'string' ? replies.split('; ') : replies;
  return list.map((line) => `${line}\r\n`).join('');
}

/** The replies after that to HELLO, whose last element is the empty list of modules. */
function afterHello(replies: string): string {
  const end = 'modules\r\n*0\r\n';
  return replies.slice(replies.indexOf(end) + end.length);
}

function expected3({ replies, replies3 }: Case): string {
  return replies3 === undefined ? lines(replies).replaceAll('$-1\r\n', '_\r\n') : lines(replies3);
}

describe('commands', () => {
  let rig: Rig;
  before(async () => {
    rig = await startServer();
  });
  after(() => rig.server.close());

  for (const each of CASES) {
    it(`${each.name}`, async () => {
      const bytes = encode(each.requests);
      const bytes3 = Buffer.concat([encode('HELLO 3'), bytes]);
      for (const options of [{}, { piece: 1 }]) {
        rig.store.clear();
        assert.equal(await exchange(rig.server, bytes, options), lines(each.replies));
        rig.store.clear();
        const replies3 = afterHello(await exchange(rig.server, bytes3, options));
        assert.equal(replies3, expected3(each));
      }
    });
  }

  it('every command has a case or stands in a transcript', () => {
    const named = new Set(
      CASES.flatMap(({ requests }) => split(requests)).map(([name]) => name.toLowerCase()),
    );
    for (const { exchanges } of readTranscripts()) {
      for (const { request } of exchanges) named.add(request.split(' ')[0].toLowerCase());
    }
    const missing = COMMANDS.all.map(({ name }) => name).filter((name) => !named.has(name));
    assert.deepEqual(missing, ['time']);
  });

  it('a connection that quits runs nothing more', async () => {
    rig.store.clear();
    await exchange(rig.server, encode(['SET a 1', 'QUIT', 'SET a 2']));
    assert.equal(Buffer.from(rig.store.get('a') ?? '').toString(), '1');
  });

  it('HELLO describes the server and changes the protocol', async () => {
    const describe2 = await exchange(rig.server, encode('HELLO'));
    assert.match(describe2, /^\*14\r\n\$6\r\nserver\r\n\$5\r\nredis\r\n.*proto\r\n:2\r\n/s);
    const replies = await exchange(
      rig.server,
      encode(['HELLO 3 SETNAME me', 'CLIENT GETNAME', 'GET x', 'HELLO 2', 'GET x']),
    );
    assert.match(replies, /^%7\r\n.*proto\r\n:3\r\n/s);
    assert.match(replies, /\$2\r\nme\r\n_\r\n\*14\r\n.*\*0\r\n\$-1\r\n$/s);
  });

  it('CLIENT ID differs between connections', async () => {
    const first = await exchange(rig.server, encode(['CLIENT ID', 'CLIENT ID']));
    const second = await exchange(rig.server, encode('CLIENT ID'));
    const [, once, twice] = /^:(\d+)\r\n:(\d+)\r\n$/.exec(first) ?? [];
    assert.equal(once, twice);
    assert.notEqual(second, `:${once}\r\n`);
  });

  it('SCAN walks over everything, page by page', async () => {
    rig.store.clear();
    rig.store.calls.scanKeys = 0;
    const keys = Array.from({ length: 57 }, (_, index) => `key${index}`);
    for (const key of keys) rig.store.set(key, 'v');
    const found: string[] = [];
    let cursor = '0';
    do {
      const reply = await exchange(rig.server, encode([`SCAN ${cursor} COUNT 20 MATCH *`]));
      cursor = /^\*2\r\n\$\d+\r\n(\d+)\r\n/.exec(reply)?.[1] ?? assert.fail(reply);
      found.push(...(reply.match(/key\d+/g) ?? []));
    } while (cursor !== '0');
    assert.deepEqual(found.sort(), keys.sort());
    assert.equal(rig.store.calls.scanKeys, Math.ceil(keys.length / 20));
  });

  it('INFO reports all usual sections, and reads no records to count keys', async ({ mock }) => {
    // Time stands still: no count seems to take so long that it is remembered.
    const now = performance.now() + 1e9;
    mock.method(performance, 'now', () => now);
    rig.store.clear();
    rig.store.set('a', '1');
    rig.store.calls.size = 0;
    const usual = await exchange(rig.server, encode('INFO'));
    for (const title of ['Server', 'Clients', 'Memory', 'Stats', 'Keyspace']) {
      assert.match(usual, new RegExp(`# ${title}\r\n`));
    }
    assert.match(usual, /redis_version:7\.\d+\.\d+\r\n/);
    assert.match(usual, /\nloading:0\r\n/);
    assert.match(usual, /\ndb0:keys=1,expires=0,avg_ttl=0\r\n/);
    assert.match(usual, /\nconnected_clients:1\r\n/);
    assert.match(usual, /\nstepwell_store:default\r\n/);
    assert.equal(rig.store.calls.stats, 1);
    const all = await exchange(rig.server, encode(['INFO everything', 'INFO clients stepwell']));
    assert.equal(all.match(/\nstepwell_records:1\r\n/g)?.length, 2);
    assert.equal(rig.store.calls.stats, 4);
    assert.equal(rig.store.calls.size, 0);
  });

  it('COMMAND lists every command, as COMMAND INFO and COMMAND DOCS do', async () => {
    const all = await exchange(rig.server, encode('COMMAND'));
    assert.equal(await exchange(rig.server, encode('COMMAND INFO')), all);
    assert.ok(all.startsWith(`*${COMMANDS.all.length}\r\n*10\r\n`));
    const docs = await exchange(rig.server, encode('COMMAND DOCS'));
    for (const { name, summary } of COMMANDS.all) {
      assert.ok(all.includes(`\r\n${name}\r\n`), name);
      assert.ok(docs.includes(`\r\n${summary}\r\n`), name);
    }
  });
});

describe('Redis itself', { skip: isMissing('redis-server') }, () => {
  let redis: RealRedis;
  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.stop());

  /** In RESP2 and RESP3. */
  async function answers(requests: Case['requests']): Promise<string[]> {
    const bytes = encode(requests);
    await redis.exchange(encode('FLUSHALL'));
    const replies = await redis.exchange(bytes);
    await redis.exchange(encode('FLUSHALL'));
    const replies3 = await redis.exchange(Buffer.concat([encode('HELLO 3'), bytes]));
    return [replies, afterHello(replies3)];
  }

  for (const each of CASES.filter(({ mayDiffer }) => mayDiffer === undefined)) {
    const ours = [lines(each.replies), expected3(each)];
    const { name, differs } = each;
    if (differs === undefined) {
      it(`answers the same: ${name}`, async () => {
        assert.deepEqual(await answers(each.requests), ours);
      });
    } else {
      // Not left out: a difference that is none any more belongs to the others.
      it(`answers otherwise, because ${differs}: ${name}`, async () => {
        assert.notDeepEqual(await answers(each.requests), ours);
      });
    }
  }
});

/** Commands of Redis that are not served, by the reason that clients are told. */
const NOT_SERVED: readonly (readonly [why: string, names: string])[] = [
  [
    'values are strings here; keep an object as one value, or its fields under keys of their own',
    // A hash in one record would need a type in the header of records, or a second store to look
    // into before each command on a string.
    `hdel hexists hget hgetall hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset
     hsetnx hstrlen hvals`,
  ],
  [
    'values are strings here, no lists, sets, sorted sets or streams',
    `blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin geoadd geodist geohash geopos
     georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch geosearchstore lindex
     linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim pfadd pfcount pfdebug
     pfmerge pfselftest rpop rpoplpush rpush rpushx sadd scard sdiff sdiffstore sinter sintercard
     sinterstore sismember smembers smismember smove sort sort_ro spop srandmember srem sscan
     sunion sunionstore xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread
     xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard
     zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex
     zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange
     zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore`,
  ],
  [
    'there are no scripts and functions here',
    'eval eval_ro evalsha evalsha_ro fcall fcall_ro function module script',
  ],
  [
    'a pool has no replicas and no cluster',
    `asking cluster failover migrate psync readonly readwrite replconf replicaof slaveof spublish
     ssubscribe sunsubscribe sync wait`,
  ],
  ['users and passwords stand in a file, see --password-file', 'acl'],
  ['see `stepwell inspect` and `stepwell check`', 'debug latency memory'],
  ['see `stepwell dump` and `stepwell load`', 'dump restore restore-asking'],
  ['the pool itself keeps the records', 'bgrewriteaof bgsave lastsave save'],
  ['each database is a store, and a store keeps its name', 'swapdb'],
  ['end the process, or send it SIGTERM', 'shutdown'],
];

/** Why a command of Redis is not served; undefined for what is no command of Redis. */
export function whyNotServed(name: string): string | undefined {
  return NOT_SERVED.find(([, names]) => names.split(/\s+/).includes(name))?.[0];
}

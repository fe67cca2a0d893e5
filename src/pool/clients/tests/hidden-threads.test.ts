/** Threads that live where /proc does not show them, or shows other ones under their ids. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { currentThread, type ThreadIdentity } from '../thread-identity.ts';

/** What Node is given before the module that a child process runs: compiled ones need nothing. */
const RUNTIME = import.meta.url.endsWith('.ts') ? ['--import', 'tsx'] : [];
const extension = import.meta.url.slice(-3);
const JUDGE = fileURLToPath(new URL(`./support/judge${extension}`, import.meta.url));
const NODE = [process.execPath, ...RUNTIME, JUDGE];

/** Why a test is left out. */
function cannot(...words: string[]): false | string {
  const fine = spawnSync(words[0], [...words.slice(1), 'true'], { stdio: 'ignore' }).status === 0;
  return fine ? false : `needs the rights of ${words[0]}`;
}

function startTimeOf(tid: number): number {
  const text = readFileSync(`/proc/${tid}/task/${tid}/stat`, 'latin1');
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[19]);
}

/** Without the right to look into any process: this one, which has it, is hidden then. */
const WEAK = ['setpriv', '--bounding-set=-sys_ptrace,-kill', '--inh-caps=-sys_ptrace,-kill'];
const HIDING = 'mount -t proc -o hidepid=2,gid=65533 proc /proc && exec "$@"';
const HIDDEN = ['unshare', '-m', 'sh', '-c', HIDING, 'sh', ...WEAK];

test('a living thread that /proc hides is not gone', { skip: cannot(...HIDDEN) }, async (t) => {
  const self = currentThread();
  const threads = readdirSync('/proc/self/task').map(Number);
  const other = threads.find((tid) => tid !== process.pid) as number;
  // Of another user: this one's processes may be signalled, those may not.
  const stranger = spawn('setpriv', ['--reuid=65534', '--clear-groups', 'sleep', '60']);
  t.after(() => stranger.kill('SIGKILL'));
  await once(stranger, 'spawn');
  const pid = stranger.pid as number;
  const ended = spawn('true');
  await once(ended, 'exit');
  const gone = ended.pid as number;
  const identities: ThreadIdentity[] = [
    { ...self },
    { ...self, tid: other, startTime: startTimeOf(other) },
    { ...self, pid, tid: pid, startTime: startTimeOf(pid) },
    { ...self, pid: gone, tid: gone },
  ];
  const asked = identities.map((one) => JSON.stringify(one));
  const answer = execFileSync(HIDDEN[0], [...HIDDEN.slice(1), ...NODE, ...asked]);
  assert.deepEqual(JSON.parse(`${answer}`), ['unknown', 'unknown', 'unknown', 'gone']);
});

const NAMESPACE = ['unshare', '-p', '-f', '-m', '--kill-child'];
/** A thread that was born before its namespace had a /proc, and one that was born afterwards. */
const TWO = `
"$@" > "$OUT" <&3 &
while ! grep -q . "$OUT"; do sleep 0.05; done
FIRST=$(cat "$OUT"); rm "$OUT"
mount -t proc proc /proc && exec "$@" "$FIRST"`;

test('ids that are those of another pid namespace say nothing', {
  skip: cannot(...NAMESPACE),
}, async () => {
  const words = [...NAMESPACE.slice(1), 'sh', '-c', `exec 3<&0; OUT=$(mktemp); ${TWO}`, 'sh'];
  // Its standard input stays open as long as this call takes.
  const child = spawn(NAMESPACE[0], [...words, ...NODE], { stdio: ['pipe', 'pipe', 'inherit'] });
  let answer = '';
  child.stdout.on('data', (chunk) => {
    answer += chunk;
  });
  await once(child, 'close');
  assert.deepEqual(JSON.parse(answer), ['unknown']);
});

const LATER = ['unshare', '--time', '--boottime', '5000', '--fork'];

test('start times from another boot say nothing', { skip: cannot(...LATER) }, () => {
  const self = JSON.stringify(currentThread());
  for (const [words, liveness] of [
    [[], 'alive'],
    [LATER, 'unknown'],
  ] as const) {
    const [command, ...rest] = [...words, ...NODE, self];
    assert.deepEqual(JSON.parse(`${execFileSync(command, rest)}`), [liveness]);
  }
});

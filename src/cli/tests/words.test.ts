import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freshUrl } from '../../store/tests/support/pools.ts';
import { RUNTIME } from '../../store/tests/support/runtime.ts';
import { exactBytes, exactWords } from '../words.ts';
import { FakePools } from './support/fake-pools.ts';
import { stepwell } from './support/terminal.ts';

const BYTES = Buffer.from(Array.from({ length: 255 }, (_, i) => i + 1));

test('words that are no UTF-8 keep their bytes, also behind options of Node', () => {
  const raw = ['node', '--flag', 'main.js', 'set', '', 'é'].map((word) => Buffer.from(word));
  raw.push(Buffer.from([0xff]), Buffer.from([0xfe]), BYTES, Buffer.from('\ufffd'));
  const words = raw.slice(3).map(String);
  const found = exactWords(words, raw, {}).map(exactBytes);
  assert.deepEqual(found.slice(0, 3), ['set', '', 'é']);
  assert.deepEqual(
    found.slice(3, 6),
    [[0xff], [0xfe], BYTES].map((of) => Uint8Array.from(of)),
  );
  assert.equal(found[6], '\ufffd');
});

test('bytes that are not to be had are refused, with a remedy', () => {
  const other = [Buffer.from('node'), Buffer.from('x')];
  for (const raw of [undefined, other, []]) {
    const [word] = exactWords(['\ufffd'], raw, {});
    assert.throws(() => exactBytes(word), /--hex or --base64/);
  }
});

test('what a package manager has made of bytes is refused, not taken for a key', () => {
  const env = { npm_config_user_agent: 'npm/11.0.0 node/v24.0.0 linux x64' };
  const raw = [Buffer.from('x'), Buffer.from('\ufffd'), Buffer.from([0xff]), Buffer.from('é')];
  const [lost, kept, text] = exactWords(raw.slice(1).map(String), raw, env);
  assert.throws(() => exactBytes(lost), /npx .*--hex or --base64, or run node_modules/);
  // A script that the manager started has bytes of its own.
  assert.deepEqual(exactBytes(kept), Uint8Array.of(0xff));
  assert.equal(exactBytes(text), 'é');
});

test('the shell’s bytes are the key, in a process of its own', (t) => {
  const url = freshUrl(t, 'shm');
  const main = fileURLToPath(new URL('../main.ts', import.meta.url));
  const script = `set -e; run() { "$NODE" $RUNTIME "$MAIN" "$@"; }
    run set "$URL" $'\\xff' one; run set "$URL" $'\\xfe' $'\\x80\\xff'
    run get "$URL" $'\\xff'; echo; run get "$URL" fe --hex; run get "$URL" /g== --base64`;
  const env = {
    ...process.env,
    NODE: process.execPath,
    MAIN: main,
    URL: url,
    RUNTIME: RUNTIME.join(' '),
  };
  const out = execFileSync('bash', ['-c', script], { env, encoding: 'latin1' });
  assert.equal(out, 'one\n80ff\ngP8=\n');
});

test('--hex and --base64 name any key and value', async () => {
  const pools = new FakePools();
  const run = async (...words: string[]) => (await stepwell(words, { pools })).out.trim();
  for (const form of ['hex', 'base64'] as const) {
    const word = BYTES.toString(form);
    await run('set', 'shm:x', word, word, `--${form}`);
    assert.equal(await run('get', 'shm:x', word, `--${form}`), word);
    assert.equal(await run('del', 'shm:x', word, `--${form}`), '1');
  }
  const { code, err } = await stepwell(['get', 'shm:x', 'xyz', '--hex'], { pools });
  assert.equal(code, 2);
  assert.match(err, /'xyz' is not hexadecimal/);
});

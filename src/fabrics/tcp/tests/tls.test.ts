/** Memory nodes behind TLS. openssl makes the certificates; without it this is skipped. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { isMissing } from '../../../store/tests/support/missing-tools.ts';
import { Batch, Scratch } from '../../../verbs/index.ts';
import { TcpFabric } from '../client/tcp-fabric.ts';
import { execute, rawConnection, startNode } from './support/rig.ts';

const skip = isMissing('openssl');

function openssl(...words: string[]): void {
  const { status, stderr } = spawnSync('openssl', words, { encoding: 'utf8' });
  assert.equal(status, 0, `openssl ${words.join(' ')}: ${stderr}`);
}

/** An authority, and a certificate of it for `host`. */
function certify(folder: string, name: string, host: string) {
  const path = (part: string) => join(folder, `${name}-${part}`);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const subject = ['-subj', `/CN=${name}`];
  openssl('req', '-x509', ...key, ...subject, '-keyout', path('ca.key'), '-out', path('ca.pem'));
  const alternative = ['-addext', `subjectAltName=${host}`];
  const signed = ['-CA', path('ca.pem'), '-CAkey', path('ca.key')];
  const files = ['-keyout', path('key.pem'), '-out', path('cert.pem')];
  openssl('req', '-x509', ...key, '-subj', '/CN=node', ...alternative, ...signed, ...files);
  const text = (part: string) => readFileSync(path(part), 'utf8');
  return { ca: text('ca.pem'), cert: text('cert.pem'), key: text('key.pem') };
}

test('verbs go through TLS; another authority, or another host, is refused', {
  skip,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'stepwell-tls-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const { ca, cert, key } = certify(folder, 'good', 'IP:127.0.0.1');
  const other = certify(folder, 'other', 'DNS:elsewhere.example');
  const { server } = await startNode(t, { tls: { cert, key }, handshakeMs: 1000 });
  const connect = (port: number, tls: object | undefined) =>
    TcpFabric.connect([{ host: '127.0.0.1', port }], { timeoutMs: 1500, ...(tls && { tls }) });
  const fabric = await connect(server.port, { ca });
  t.after(() => fabric.close());
  // More than one record of TLS, in both directions.
  const out = new Scratch(400_000);
  for (let i = 0; i < out.u8.length; i++) out.u8[i] = (i * 31) & 0xff;
  const back = new Scratch(400_000);
  await execute(fabric, new Batch().write(0, 400_000, out, 0).read(0, 400_000, back, 0));
  assert.ok(Buffer.compare(out.u8, back.u8) === 0);
  for (let i = 0; i < 100; i++) {
    await execute(fabric, new Batch().read(8 * i, 8, back, 0));
    assert.equal(back.i64[0], out.i64[i]);
  }
  // One that says nothing is gone after its deadline; a client that was let in has none.
  const mute = await rawConnection(t, server.port);
  await once(mute.resume(), 'close');
  await execute(fabric, new Batch().read(0, 8, back, 0));
  const refused = async (port: number, tls: object | undefined, why: RegExp) => {
    await assert.rejects(connect(port, tls), { code: 'SW_UNAUTHENTICATED', message: why });
  };
  await refused(server.port, { ca: other.ca }, /certificate/);
  await refused(server.port, {}, /certificate/);
  const elsewhere = await startNode(t, { tls: { cert: other.cert, key: other.key } });
  await refused(elsewhere.server.port, { ca: other.ca }, /altnames|does not match/i);
  // Who speaks without TLS learns nothing, in a bounded time.
  await assert.rejects(connect(server.port, undefined), { code: 'SW_NODE_UNREACHABLE' });
  // And a node without it is no node for who insists on it.
  const plain = await startNode(t);
  await assert.rejects(connect(plain.server.port, { ca }), { code: 'SW_NODE_UNREACHABLE' });
  await execute(fabric, new Batch().read(0, 8, back, 0));
});

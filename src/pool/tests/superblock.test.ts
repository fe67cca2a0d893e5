import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOf, throwsCode } from '../../store/tests/support/codes.ts';
import { CHUNK_BYTES, LAYOUT_VERSION, PARAMETER_BYTES, SUPERBLOCK } from '../layout.ts';
import {
  formatSuperblock,
  parseSuperblock,
  poolParameters,
  SUPERBLOCK_BYTES,
} from '../superblock.ts';

const MIB = 2 ** 20;
const SIZES = { size: 64 * MIB, regionSize: 16 * MIB, maxClients: 20 };
const parameters = poolParameters(SIZES, { size: MIB });
const bytes = formatSuperblock(parameters);

const parse = (changed: Uint8Array, memory = 64 * MIB) => parseSuperblock(changed, memory, 'url');

test('a superblock comes back as it was written', () => {
  assert.deepEqual(parse(bytes), parameters);
  assert.equal(parameters.regionBytes, 16 * MIB);
  assert.equal(parameters.regionsMax, 4);
  assert.equal(parameters.clientsMax, 20);
});

test('regions that nobody chose share the whole size', () => {
  for (const size of [5, 64, 1024, 1025, 1717, 2047, 8192, 100_000].map((mib) => mib * MIB)) {
    const { regionBytes, regionsMax } = poolParameters({ size }, { size: MIB });
    assert.ok(regionBytes <= 1024 * MIB);
    // Each region ends with a whole chunk.
    const lost = size - regionBytes * regionsMax;
    assert.ok(lost >= 0 && lost < regionsMax * CHUNK_BYTES, `${lost} of ${size}`);
  }
  assert.equal(poolParameters({ size: 6144 * MIB, nodes: 4 }, { size: MIB }).regionsMax, 8);
});

test('each byte of the parameters flipped: an error, or nothing changed', () => {
  for (let at = 0; at < PARAMETER_BYTES; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const changed = bytes.slice();
      changed[at] ^= 1 << bit;
      const code = codeOf(() => {
        assert.deepEqual(parse(changed), parameters);
      });
      const expected = at < 8 ? 'SW_POOL_FOREIGN' : at < 12 ? 'SW_POOL_VERSION' : 'SW_POOL_CORRUPT';
      assert.equal(code, expected, `byte ${at}, bit ${bit}`);
    }
  }
});

test('each other byte of the superblock flipped is never a crash', () => {
  const allowed = ['returned object', 'SW_POOL_CORRUPT', 'SW_POOL_TRUNCATED'];
  for (let at = PARAMETER_BYTES; at < SUPERBLOCK_BYTES; at++) {
    const changed = bytes.slice();
    changed[at] ^= 0xff;
    const code = codeOf(() => parse(changed));
    assert.ok(allowed.includes(code), `byte ${at}: ${code}`);
  }
});

test('what is no pool', () => {
  const text = new TextEncoder().encode('just some text\n'.repeat(400));
  for (const foreign of [new Uint8Array(0), new Uint8Array(15), new Uint8Array(4096), text]) {
    throwsCode('SW_POOL_FOREIGN', () => parse(foreign));
  }
  throwsCode('SW_POOL_FOREIGN', () => parse(crypto.getRandomValues(new Uint8Array(4096))));
});

test('truncated at every length', () => {
  for (let length = 0; length < SUPERBLOCK_BYTES; length += length < 70 ? 1 : 97) {
    const code = codeOf(() => parse(bytes.slice(0, length)));
    assert.equal(code, length < 16 ? 'SW_POOL_FOREIGN' : 'SW_POOL_TRUNCATED', `${length} bytes`);
  }
  throwsCode('SW_POOL_TRUNCATED', () => parse(bytes, 16 * MIB - 1));
  throwsCode('SW_POOL_TRUNCATED', () => parse(bytes, 4096));
  assert.deepEqual(parse(bytes, 16 * MIB), parameters, 'one region exists, four may');
});

test('another layout version', () => {
  for (const version of [0, 1, LAYOUT_VERSION + 1, 2 ** 32 - 1]) {
    const changed = bytes.slice();
    new DataView(changed.buffer).setUint32(SUPERBLOCK.versionAndChecksum, version, true);
    throwsCode('SW_POOL_VERSION', () => parse(changed));
  }
});

test('region counts that contradict the rest', () => {
  for (const count of [0n, 5n, 2n ** 63n, 2n ** 64n - 1n]) {
    const changed = bytes.slice();
    new DataView(changed.buffer).setBigUint64(SUPERBLOCK.regionCount, count, true);
    throwsCode('SW_POOL_CORRUPT', () => parse(changed));
  }
  const changed = bytes.slice();
  new DataView(changed.buffer).setBigUint64(SUPERBLOCK.regionCount, 4n, true);
  throwsCode('SW_POOL_TRUNCATED', () => parse(changed, 64 * MIB - 1));
});

test('a maximum that was raised', () => {
  const raised = (regions: bigint) => {
    const changed = bytes.slice();
    new DataView(changed.buffer).setBigUint64(SUPERBLOCK.regionsRaised, regions, true);
    return changed;
  };
  assert.equal(parse(raised(1024n)).regionsRaised, 1024);
  for (const regions of [3n, 1025n, 2n ** 63n, 2n ** 64n - 1n]) {
    throwsCode('SW_POOL_CORRUPT', () => parse(raised(regions)));
  }
});

test('a superblock in the middle of another buffer', () => {
  const around = new Uint8Array(SUPERBLOCK_BYTES + 100);
  around.set(bytes, 50);
  assert.deepEqual(parse(around.subarray(50, 50 + SUPERBLOCK_BYTES)), parameters);
});

test('sizes that are refused', () => {
  const refused = (sizing: object) => () => poolParameters(sizing, { size: 64 * MIB });
  for (const size of [1, 4096, 256 * 1024, MIB - 1]) {
    throwsCode('SW_POOL_TOO_SMALL', refused({ size }));
  }
  throwsCode('SW_POOL_TOO_SMALL', refused({ size: 64 * MIB, regionSize: 256 * 1024 }));
  throwsCode('SW_POOL_TOO_SMALL', refused({ regionSize: 1 }));
  for (const wrong of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '64', 2 ** 60, null, {}]) {
    if (wrong === null) continue;
    throwsCode('SW_INVALID_ARGUMENT', refused({ size: wrong }), String(wrong));
    throwsCode('SW_INVALID_ARGUMENT', refused({ regionSize: wrong }), String(wrong));
    throwsCode('SW_INVALID_ARGUMENT', refused({ maxClients: wrong }), String(wrong));
  }
  throwsCode('SW_INVALID_ARGUMENT', refused({ regionSize: 2 ** 31 + 1 }));
  throwsCode('SW_INVALID_ARGUMENT', refused({ maxClients: 4096 }));
  throwsCode('SW_INVALID_ARGUMENT', refused({ size: 2 ** 40, regionSize: 2 ** 20 }));
  assert.equal(poolParameters({ maxClients: 4095 }, { size: 64 * MIB }).clientsMax, 4095);
});

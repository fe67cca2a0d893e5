import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { errnoOf, fileSystemRefused, GROW, isFull, remedyFor } from '../refused-memory.ts';

const ENOMEM = 12;
const EFAULT = 14;
const EFBIG = 27;
const ENOSPC = 28;
const EDQUOT = 122;

test('each way in which a system refuses memory is a full pool, and its error says why', () => {
  const path = join(tmpdir(), 'pool');
  const reasons: [errno: number, reason: RegExp][] = [
    [ENOMEM, /the system has no memory left for .*pool$/],
    [EDQUOT, /the disk quota for .*pool is used up$/],
    [EFBIG, /pool has reached the limit on a file's size/],
    [ENOSPC, /the file system of .*pool/],
    // What populating a mapping answers where a write would be a bus error.
    [EFAULT, /the file system of .*pool/],
  ];
  for (const [errno, reason] of reasons) {
    const { code, message } = fileSystemRefused(path, errno);
    assert.equal(code, 'SW_POOL_FULL');
    assert.match(message, reason);
  }
  // Any other errno of fallocate says that the file system has no such call.
  for (const errno of [ENOSPC, EDQUOT, EFBIG]) assert.ok(isFull(errno), `${errno}`);
});

test('a full pool is told to grow only where its file system has room', () => {
  const path = join(tmpdir(), 'pool');
  assert.equal(remedyFor(path, 1), GROW);
  assert.match(remedyFor(path, 2 ** 60), /remove records, or first make its file system .* larger/);
});

test("an error's number is that of its name: Node has numbers of its own on Windows", () => {
  const error = Object.assign(new Error(), { code: 'ENOSPC', errno: -4055 });
  assert.ok(isFull(errnoOf(error)));
  assert.equal(errnoOf(Object.assign(new Error(), { code: 'NONE', errno: -7 })), 7);
});

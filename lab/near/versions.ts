import { closeSync, ftruncateSync, openSync, unlinkSync } from 'node:fs';
import { loadLibc } from '../../src/fabrics/shared/libc.ts';

/**
 * The oracle, beside the stores: the latest version of each key whose write was acknowledged. A
 * reader that looks here first, and then reads an older version, has read a stale value.
 */
export class Versions {
  readonly #words: Int32Array;
  readonly #close: () => void;

  private constructor(fd: number, keys: number) {
    const libc = loadLibc();
    const mapping = libc.mapShared(fd, 0, 4 * keys);
    this.#words = new Int32Array(mapping.memory, 0, keys);
    this.#close = () => libc.release(mapping);
  }

  /** Creates the file, with version 1 of every key. */
  static create(path: string, keys: number): Versions {
    const fd = openSync(path, 'wx+', 0o600);
    try {
      ftruncateSync(fd, 4 * keys);
      const versions = new Versions(fd, keys);
      versions.#words.fill(1);
      return versions;
    } catch (error) {
      unlinkSync(path);
      throw error;
    } finally {
      closeSync(fd);
    }
  }

  static attach(path: string, keys: number): Versions {
    const fd = openSync(path, 'r+');
    try {
      return new Versions(fd, keys);
    } finally {
      closeSync(fd);
    }
  }

  acknowledged(key: number): number {
    return Atomics.load(this.#words, key);
  }

  acknowledge(key: number, version: number): void {
    Atomics.store(this.#words, key, version);
  }

  close(): void {
    this.#close();
  }
}

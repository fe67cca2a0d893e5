import { closeSync, ftruncateSync, openSync, unlinkSync } from 'node:fs';
import { loadLibc } from '../../src/fabrics/shared/libc.ts';
import { ExpectedValues } from './expected-values.ts';
import type { OracleShape } from './oracle-shape.ts';

/** The oracle in a mapped file, so that it survives every worker. */
export class OracleFile {
  readonly path: string;
  readonly values: ExpectedValues;
  readonly #close: () => void;

  private constructor(path: string, shape: OracleShape, flags: string) {
    const bytes = ExpectedValues.bytes(shape);
    const fd = openSync(path, flags, 0o600);
    try {
      if (flags === 'wx+') ftruncateSync(fd, bytes);
      const libc = loadLibc();
      const mapping = libc.mapShared(fd, 0, bytes);
      this.#close = () => libc.release(mapping);
      this.values = new ExpectedValues(mapping.memory, shape);
    } finally {
      closeSync(fd);
    }
    this.path = path;
  }

  static create(path: string, shape: OracleShape): OracleFile {
    const file = new OracleFile(path, shape, 'wx+');
    file.values.format();
    return file;
  }

  static attach(path: string, shape: OracleShape): OracleFile {
    return new OracleFile(path, shape, 'r+');
  }

  close(): void {
    this.#close();
  }

  destroy(): void {
    this.close();
    unlinkSync(this.path);
  }
}

import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** Bytes to load, with what a progress bar wants to know about them. */
export interface Input {
  name: string;
  bytes: Readable;
  /** Size of the file as it lies on disk, if it is a file. */
  total: number | undefined;
  /** Bytes of the file read so far. */
  done(): number;
  close(): void;
}

const READ_SIZE = 256 * 1024;

/** Opens a file, unpacked on the way when its name ends in `.gz`; `-` is standard input. */
export async function openInput(file: string, stdin: Readable): Promise<Input> {
  if (file === '-') return standardInput(stdin);
  const handle = await open(file);
  const status = await handle.stat();
  const raw = handle.createReadStream({ highWaterMark: READ_SIZE });
  const bytes = file.endsWith('.gz') ? unpacked(raw) : raw;
  return {
    name: file,
    bytes,
    total: status.isFile() ? status.size : undefined,
    done: () => raw.bytesRead,
    close: () => {
      bytes.destroy();
      raw.destroy();
    },
  };
}

function standardInput(stdin: Readable): Input {
  let done = 0;
  stdin.on('data', (chunk: Uint8Array) => {
    done += chunk.length;
  });
  // The counter must not start the flow before a reader is there.
  stdin.pause();
  return {
    name: 'standard input',
    bytes: stdin,
    total: undefined,
    done: () => done,
    close: () => stdin.destroy(),
  };
}

function unpacked(raw: Readable): Readable {
  const gunzip = createGunzip({ chunkSize: READ_SIZE });
  // An error of either stream reaches the reader of the unpacked one.
  pipeline(raw, gunzip, () => {});
  return gunzip;
}

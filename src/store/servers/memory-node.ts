import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statSync,
} from 'node:fs';
import { createSecureContext } from 'node:tls';
import { StepwellError } from '../../errors.ts';
import { loadLibc } from '../../fabrics/shared/libc.ts';
import { MemorySource } from '../../fabrics/shared/memory-source.ts';
import { fileSystemRefused } from '../../fabrics/shared/refused-memory.ts';
import { ERASING } from '../../fabrics/tcp/node/node-memory.ts';
import {
  type NodeMemoryPlace,
  NodeThread,
  type ThreadOptions,
} from '../../fabrics/tcp/node/node-thread.ts';
import type { RowTable } from '../../fabrics/tcp/node/reader-guard.ts';
import { FRAME_BYTES_MAX, FRAME_BYTES_MIN, NODE_REGIONS_MAX } from '../../fabrics/tcp/wire.ts';
import { startUcxNode } from '../../fabrics/ucx/node/start.ts';
import { type Transports, transportsOf } from '../../fabrics/ucx/transports.ts';
import {
  CHUNK_BYTES,
  CLIENT_ENTRY_BYTES,
  CLIENTS_OFFSET,
  MAGIC,
  SUPERBLOCK,
} from '../../pool/layout.ts';
import { isMarkedDestroyed, SUPERBLOCK_BYTES } from '../../pool/superblock.ts';
import { invalid, unsupported } from '../arguments.ts';
import { guardIo } from '../io-errors.ts';
import { linkTarget } from '../places/pool-files.ts';
import { secretFrom } from '../remote/address.ts';
import { shapeIn } from '../remote/node-heads.ts';

const { O_CREAT, O_RDWR } = constants;
const DEFAULT_NODE_BYTES = 2 ** 30;
const DEFAULT_REGION_BYTES = 2 ** 30;
const REGION_BYTES_MAX = 2 ** 31;
const LEASE_MS_MIN = 100;
/** The rows of the client table, where even clients that may only read must write. */
const CLIENT_ROWS: RowTable = {
  magic: MAGIC,
  at: CLIENTS_OFFSET,
  rowBytes: CLIENT_ENTRY_BYTES,
  countAt: SUPERBLOCK.clientsMax,
};
const OUTSTANDING_BYTES_MIN = 64 * 1024;

export interface MemoryNodeOptions {
  /** Where to listen (127.0.0.1); anything but loopback needs a secret. */
  host?: string;
  /** 0 for any free port (7471). */
  port?: number;
  /** Bytes of memory (1 GiB). An existing file keeps its own size. */
  size?: number;
  /** Bytes of a region, a multiple of 256 KiB, at most 2 GiB. All nodes of a pool have the same. */
  regionSize?: number;
  /** A file that holds the memory, so that it outlives the node; created if it does not exist. */
  file?: string;
  /** The secret of clients. Default: STEPWELL_SECRET, or the file STEPWELL_SECRET_FILE. */
  secret?: string | Uint8Array;
  /**
   * The secret of clients that may only read: the node refuses everything else. Such clients open
   * stores with `readOnly: true` and this as `secret`. Needs a `secret` for the other clients.
   */
  readSecret?: string | Uint8Array;
  /** Certificate and key in PEM: the node then listens with TLS. */
  tls?: { cert: string; key: string };
  /** The most clients at the same time (1024). The node refuses others with SW_TOO_MANY_CLIENTS. */
  maxConnections?: number;
  /**
   * The most bytes that a client may have under way, and that may wait until it receives them (8
   * MiB). A longer READ or WRITE goes alone.
   */
  outstandingBytesMax?: number;
  /**
   * The most bytes of answers that may wait for all clients together (64 MiB). Beyond that a client
   * gets no more answers before it has received those that wait for it, so slow readers cannot use
   * up the node's memory.
   */
  bufferedBytesMax?: number;
  /**
   * The longest frame that the node accepts and sends, 8 KiB to 1 MiB (1 MiB). Clients split longer
   * transfers; the node disconnects a client that sends a longer frame.
   */
  frameBytesMax?: number;
  /** Milliseconds of silence after which a client is revoked (10,000). */
  leaseMs?: number;
  /**
   * How verbs reach the memory (`tcp`). With `ucx` clients open `ucx://host:port`: they connect as
   * usual, and their verbs use UCX, which must be installed on both sides (libucx0).
   */
  fabric?: 'tcp' | 'ucx';
  /** UCX: the device that clients reach the node by, such as `mlx5_0:1`; else only this machine. */
  device?: string;
  /** UCX: the transports, separated by commas (`rc` with a device, else `tcp`). */
  transports?: string;
}

export interface RunningNode {
  host: string;
  port: number;
  size: number;
  /** Settled when the node has ended. */
  ended: Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a memory node, its verb loop in a thread of its own. Its memory becomes a pool, or a part
 * of one, when a client opens it. With `file` a client on this machine may open `file:PATH` too.
 *
 * @throws StepwellError SW_INVALID_ARGUMENT for options that cannot be, off loopback without a
 *   secret, with one secret for readers and writers, and where nobody can listen;
 *   SW_ADDRESS_IN_USE; of a file SW_DIRECTORY_NOT_FOUND, SW_PERMISSION_DENIED, SW_POOL_FOREIGN,
 *   SW_POOL_FULL, SW_POOL_BUSY (another node lends it).
 */
export async function startMemoryNode(options: MemoryNodeOptions = {}): Promise<RunningNode> {
  const { host = '127.0.0.1', port = 7471, tls } = options;
  const limits = limitsOf(options);
  if (tls !== undefined) refuseBadCertificate(tls);
  const secret = secretFrom(options.secret, process.env);
  const readSecret = options.readSecret && secretFrom(options.readSecret, {});
  if (readSecret && secret === undefined)
    throw invalid('a secret for readers needs one for writers');
  if (readSecret && secret && Buffer.compare(readSecret, secret) === 0)
    throw invalid('readers have the secret of writers, and could write: give them another one');
  const transports = ucxTransports(options);
  const memory =
    options.file === undefined ? newMemory(options) : fileMemory(options.file, options);
  const { place, regionBytes, regions, release } = memory;
  const settings: ThreadOptions = { host, port, place, regionBytes };
  const given = { secret, readSecret, rows: readSecret && CLIENT_ROWS, tls, ...limits };
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) Object.assign(settings, { [name]: value });
  }
  const starting = transports
    ? startUcxNode({ ...settings, transports })
    : NodeThread.start(settings);
  const thread = await starting.catch((cause: unknown) => {
    release();
    if (cause instanceof StepwellError) throw cause;
    // The system refused: it does not have this address, the name is unknown, or the port is not
    // allowed.
    throw invalid(`cannot listen on ${host}:${port}: ${(cause as Error).message}`, { cause });
  });
  const ended = thread.ended.finally(release);
  // A caller that awaits the end gets the failure, but no caller has to.
  ended.catch(() => {});
  return {
    host,
    port: thread.port,
    size: regions * regionBytes,
    ended,
    async stop() {
      await thread.stop();
      await ended;
    },
  };
}

/** Raises SW_INVALID_ARGUMENT, and SW_UNSUPPORTED for options that UCX cannot honour. */
function ucxTransports(options: MemoryNodeOptions): Transports | undefined {
  const { fabric = 'tcp', device, transports, readSecret, file } = options;
  if (fabric !== 'ucx') {
    if (fabric !== 'tcp') throw invalid(`the fabric of a node is tcp or ucx: ${fabric}`);
    if (device !== undefined || transports !== undefined) {
      throw invalid('device and transports belong to the fabric ucx');
    }
    return undefined;
  }
  const chosen = transportsOf(transports, device);
  if (readSecret !== undefined) {
    const why = 'nothing stands between their verbs and the memory';
    throw unsupported(`over UCX a node cannot keep clients to reading: ${why}`);
  }
  if (file !== undefined && chosen.atomics === 'device') {
    const why = "a network card's atomics are not atomic with those of processes that map it";
    throw unsupported(`a file cannot be lent by transport ${chosen.names}: ${why}`);
  }
  return chosen;
}

function limitsOf(options: MemoryNodeOptions) {
  const { leaseMs, maxConnections, outstandingBytesMax, bufferedBytesMax, frameBytesMax } = options;
  if (leaseMs !== undefined && !(leaseMs >= LEASE_MS_MIN && leaseMs <= 2 ** 31 - 1)) {
    throw invalid(`a lease has at least ${LEASE_MS_MIN} ms: ${leaseMs}`);
  }
  if (maxConnections !== undefined && !(Number.isInteger(maxConnections) && maxConnections >= 1)) {
    throw invalid(`a node takes at least 1 connection: ${maxConnections}`);
  }
  const bytes = outstandingBytesMax ?? OUTSTANDING_BYTES_MIN;
  if (!Number.isInteger(bytes) || bytes < OUTSTANDING_BYTES_MIN || bytes > 2 ** 31 - 1) {
    throw invalid(`a client has ${OUTSTANDING_BYTES_MIN} bytes to 2 GiB under way: ${bytes}`);
  }
  if (bufferedBytesMax !== undefined && !(bufferedBytesMax >= OUTSTANDING_BYTES_MIN)) {
    const least = `${OUTSTANDING_BYTES_MIN} bytes or more may wait for all clients`;
    throw invalid(`${least}: ${bufferedBytesMax}`);
  }
  const frame = frameBytesMax ?? FRAME_BYTES_MAX;
  if (!Number.isInteger(frame) || frame < FRAME_BYTES_MIN || frame > FRAME_BYTES_MAX) {
    throw invalid(
      `frames of ${FRAME_BYTES_MIN} to ${FRAME_BYTES_MAX} bytes can be the longest: ${frame}`,
    );
  }
  return { leaseMs, maxConnections, outstandingBytesMax, bufferedBytesMax, frameBytesMax };
}

/** Checked here, because the thread would report a bad certificate like a bad address. */
function refuseBadCertificate(tls: { cert: string; key: string }): void {
  try {
    createSecureContext(tls);
  } catch (cause) {
    const why = (cause as Error).message;
    throw invalid(`certificate and key cannot be used: ${why}`, { cause });
  }
}

interface Memory {
  place: NodeMemoryPlace;
  regionBytes: number;
  regions: number;
  /** Call it when the node has ended. */
  release(): void;
}

function newMemory(options: MemoryNodeOptions): Memory {
  const { regionBytes, regions } = geometry(options);
  const { buffers } = MemorySource.allocate(regions, regionBytes);
  return { place: { kind: 'memory', buffers }, regionBytes, regions, release() {} };
}

function geometry({ size = DEFAULT_NODE_BYTES, regionSize }: MemoryNodeOptions) {
  if (!Number.isSafeInteger(size) || size < CHUNK_BYTES) {
    throw invalid(`a memory node has at least ${CHUNK_BYTES} bytes: ${size}`);
  }
  const wanted = regionSize ?? Math.min(size, DEFAULT_REGION_BYTES);
  const regionBytes = Math.floor(wanted / CHUNK_BYTES) * CHUNK_BYTES;
  if (!Number.isSafeInteger(wanted) || regionBytes < 1 || regionBytes > REGION_BYTES_MAX) {
    throw invalid(`a region has ${CHUNK_BYTES} bytes to 2 GiB: ${wanted}`);
  }
  const regions = Math.floor(size / regionBytes);
  if (regions < 1 || regions > NODE_REGIONS_MAX) {
    throw invalid(`a memory node has 1..${NODE_REGIONS_MAX} regions of --region-size`);
  }
  return { regionBytes, regions };
}

/**
 * Allocates the whole file now, so that a full file system is an error here, and never a bus error.
 * Two nodes must not lend the same file: a client that one revoked could go on at the other. So the
 * file stays locked until the node ends, however it ends.
 */
function fileMemory(path: string, options: MemoryNodeOptions): Memory {
  if (process.platform !== 'linux') {
    throw unsupported('memory nodes lend files on Linux only: leave the file out');
  }
  const fd = openFile(path);
  try {
    if (!loadLibc().lock(fd)) {
      throw new StepwellError('SW_POOL_BUSY', `another memory node lends ${path}`);
    }
    const bytes = fstatSync(fd).size;
    const head = new Uint8Array(SUPERBLOCK_BYTES);
    const hasHead = readSync(fd, head, 0, SUPERBLOCK_BYTES, 0) === SUPERBLOCK_BYTES;
    if (bytes > 0 && !hasHead) {
      throw new StepwellError('SW_POOL_FOREIGN', `${path} is not a Stepwell pool`);
    }
    const size = bytes > 0 ? bytes : options.size;
    if (isHalfErased(head) || isMarkedDestroyed(head)) {
      ftruncateSync(fd, 0);
      head.fill(0);
    }
    const { regionBytes, regions } = shapeIn(head, path) ?? geometry({ ...options, size });
    if (regions > NODE_REGIONS_MAX) {
      const why = `${path} has ${regions} regions, and a memory node lends ${NODE_REGIONS_MAX}`;
      throw unsupported(`${why}: stepwell copy makes a pool with larger ones (--region-size)`);
    }
    const errno = loadLibc().allocate(fd, regions * regionBytes);
    if (errno !== 0) throw fileSystemRefused(path, errno);
    const place = { kind: 'file' as const, path, regions };
    return { place, regionBytes, regions, release: () => closeSync(fd) };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

function openFile(named: string): number {
  const path = guardIo(named, named, () => linkTarget(named));
  const lookUp = () => statSync(path, { throwIfNoEntry: false });
  const isNew = guardIo(named, path, lookUp) === undefined;
  // In a sticky directory the system may refuse O_CREAT for a file that exists.
  const flags = isNew ? O_RDWR | O_CREAT : O_RDWR;
  return guardIo(named, path, () => openSync(path, flags, 0o600), isNew ? 'create' : 'open');
}

/** Whether a node was killed while its memory was being erased. */
function isHalfErased(head: Uint8Array): boolean {
  return new DataView(head.buffer).getBigInt64(0, true) === ERASING;
}

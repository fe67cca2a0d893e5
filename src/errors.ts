/**
 * Every error that Stepwell raises on purpose. `code` is stable across versions and is what
 * programs should test; the message is one line, written for the person who reads it.
 */
export type ErrorCode =
  | 'SW_INVALID_URL' // the pool URL cannot be understood
  | 'SW_INVALID_ARGUMENT' // an option or an argument is out of its range or of the wrong type
  | 'SW_INVALID_KEY' // a key is neither well-formed text nor bytes, or is too long
  | 'SW_INVALID_VALUE' // a value is neither well-formed text nor bytes, or is too long
  | 'SW_UNDECODABLE' // a value is not in the format that the store was opened with
  | 'SW_UNSUPPORTED' // this platform, index or fabric cannot do what was asked
  | 'SW_POOL_NOT_FOUND' // no pool at this URL
  | 'SW_DIRECTORY_NOT_FOUND' // the directory in which a pool was to be made does not exist
  | 'SW_POOL_EXISTS' // a pool is already there and the caller asked for a new one
  | 'SW_POOL_FOREIGN' // the file is not a Stepwell pool
  | 'SW_POOL_CORRUPT' // a superblock, catalog entry, index or record contradicts itself
  | 'SW_POOL_VERSION' // the pool has another layout version
  | 'SW_POOL_TRUNCATED' // the file is shorter than its superblock says
  | 'SW_POOL_TOO_SMALL' // the asked size cannot hold an empty pool
  | 'SW_POOL_FULL' // no memory left in the pool (or in the file system below it)
  | 'SW_POOL_DESTROYED' // the pool was destroyed while this client had it open
  | 'SW_PERMISSION_DENIED' // the system does not let this process at the pool, or at what it needs
  | 'SW_POOL_BUSY' // a living client, or another memory node, has what the caller wants for itself
  | 'SW_TOO_MANY_FILES' // this process, or the system, has too many open files
  | 'SW_OUT_OF_MEMORY' // the system has no memory, or no addresses, for a mapping
  | 'SW_SYSTEM_ERROR' // the system failed in a way that has no code of its own; see `cause`
  | 'SW_TOO_MANY_CLIENTS' // the client table is full
  | 'SW_STORE_NOT_FOUND' // the pool has no store of this name
  | 'SW_STORE_EXISTS' // a store of this name is already there and the caller asked for a new one
  | 'SW_STORE_DROPPED' // the store was dropped while this client had it open
  | 'SW_TOO_MANY_STORES' // the pool's catalog is full
  | 'SW_STORE_MISMATCH' // the store exists with other parameters than those asked for
  | 'SW_INDEX_FULL' // the index reached its maximum depth
  | 'SW_NOT_INTEGER' // increment met a value that is not a decimal integer
  | 'SW_OVERFLOW' // increment would leave the range of integers
  | 'SW_CONTENTION' // an operation gave up after its bounded number of retries
  | 'SW_TIMEOUT' // waiting for another client took too long
  | 'SW_NO_PRIMARY' // no server is elected that could answer; what was asked for may still be done
  | 'SW_COORDINATION' // the coordination service cannot be reached, or refuses
  | 'SW_RECORD_CORRUPT' // a record does not match its checksum
  | 'SW_ADDRESS_IN_USE' // another server already listens on this host and port
  | 'SW_NODE_UNREACHABLE' // a memory node cannot be reached, or went away; outcomes are unknown
  | 'SW_UNAUTHENTICATED' // a memory node wants another secret, or its certificate is not trusted
  | 'SW_PROTOCOL' // what arrived from the other end of a connection cannot be understood
  | 'SW_LEASE_LOST' // a lease is over: it was released, its store was closed, or it was lost
  | 'SW_ABORTED' // the caller's AbortSignal was aborted
  | 'SW_REVOKED' // other clients took this one for dead; it must open the pool again
  | 'SW_READ_ONLY' // the store was opened for reading, or a memory node lets this client only read
  | 'SW_CLOSED'; // the store or pool has been closed

/** Every error that Stepwell raises on purpose. Test `code`, not `message`. */
export class StepwellError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StepwellError';
    this.code = code;
  }
}

export function hasCode(error: unknown, code: ErrorCode): error is StepwellError {
  return error instanceof StepwellError && error.code === code;
}

/** Raises SW_POOL_CORRUPT-like failures of invariants that must hold whatever other clients do. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new StepwellError('SW_POOL_CORRUPT', `invariant broken: ${message}`);
}

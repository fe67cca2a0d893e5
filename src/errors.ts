/**
 * Every error that Stepwell raises on purpose. `code` is stable across versions and is what
 * programs should test; the message is one line, written for the person who reads it.
 */
export type ErrorCode =
  | 'SW_INVALID_URL' // the pool URL cannot be understood
  // Remedy: write shm:NAME, file:PATH, memory: or tcp://HOST:PORT/STORE
  | 'SW_INVALID_ARGUMENT' // an option or an argument is out of its range or of the wrong type
  // Remedy: correct what the message names
  | 'SW_INVALID_KEY' // a key is neither well-formed text nor bytes, or is too long
  // Remedy: use a string or bytes of at most 65,535 bytes
  | 'SW_INVALID_VALUE' // a value is neither well-formed text nor bytes, or is too long
  // Remedy: for values of any type open the store with values: 'json' or another format
  | 'SW_UNDECODABLE' // a value is not in the format that the store was opened with
  // Remedy: open the store with the values option of the client that wrote the value, or set
  // it again
  | 'SW_UNSUPPORTED' // this platform, index or fabric cannot do what was asked
  // Remedy: the message says what can, such as another index
  | 'SW_POOL_NOT_FOUND' // no pool at this URL
  // Remedy: check the name, or leave out create: false
  | 'SW_DIRECTORY_NOT_FOUND' // the directory in which a pool was to be made does not exist
  // Remedy: make the directory
  | 'SW_POOL_EXISTS' // a pool is already there and the caller asked for a new one
  // Remedy: open the pool, or destroy it first
  | 'SW_POOL_FOREIGN' // the file is not a Stepwell pool
  // Remedy: choose another path
  | 'SW_POOL_CORRUPT' // a superblock, catalog entry, index or record contradicts itself
  // Remedy: run stepwell check; restore a dump into a new pool
  | 'SW_POOL_VERSION' // the pool has another layout version
  // Remedy: dump the pool with the version that made it, and load the dump into a new one
  | 'SW_POOL_TRUNCATED' // the file is shorter than its superblock says
  // Remedy: destroy the pool, and restore a dump
  | 'SW_POOL_TOO_SMALL' // the asked size cannot hold an empty pool
  // Remedy: ask for a larger size
  | 'SW_POOL_FULL' // no memory left in the pool (or in the file system below it)
  // Remedy: grow the pool, delete records, or bound the store with maxBytes
  | 'SW_POOL_DESTROYED' // the pool was destroyed while this client had it open
  // Remedy: open the pool again
  | 'SW_PERMISSION_DENIED' // the system does not let this process at the pool, or at what it needs
  // Remedy: run as the user that owns the pool, or change the mode of its file
  | 'SW_POOL_BUSY' // a living client, or another memory node, has what the caller wants for itself
  // Remedy: close the other clients, or use force where the call has it
  | 'SW_TOO_MANY_FILES' // this process, or the system, has too many open files
  // Remedy: close files, or raise the limit (ulimit -n)
  | 'SW_OUT_OF_MEMORY' // the system has no memory, or no addresses, for a mapping
  // Remedy: use a smaller pool, or give the container more memory
  | 'SW_SYSTEM_ERROR' // the system failed in a way that has no code of its own; see `cause`
  // Remedy: the cause has the code of the system
  | 'SW_TOO_MANY_CLIENTS' // the client table is full
  // Remedy: close clients, or copy the pool with a larger maxClients
  | 'SW_STORE_NOT_FOUND' // the pool has no store of this name
  // Remedy: check the name (stepwell stores URL), or leave out create: false
  | 'SW_STORE_EXISTS' // a store of this name is already there and the caller asked for a new one
  // Remedy: open the store, or drop it first
  | 'SW_STORE_DROPPED' // the store was dropped while this client had it open
  // Remedy: open the store again
  | 'SW_TOO_MANY_STORES' // the pool's catalog is full
  // Remedy: drop a store, or use namespaces or another pool
  | 'SW_STORE_MISMATCH' // the store exists with other parameters than those asked for
  // Remedy: leave out the index and the bound, or use another store name
  | 'SW_INDEX_FULL' // the index reached its maximum depth
  // Remedy: make a store with a larger maximum, as the page of the index says, and copy the
  // records
  | 'SW_NOT_INTEGER' // increment met a value that is not a decimal integer
  // Remedy: use another key for the counter, or set it to a number
  | 'SW_OVERFLOW' // increment would leave the range of integers
  // Remedy: increment by a bigint, or start the counter again
  | 'SW_CONTENTION' // an operation gave up after its bounded number of retries
  // Remedy: try again; the message names the client that holds the lock, if there is one
  | 'SW_TIMEOUT' // waiting for another client took too long
  // Remedy: look at the other client with stepwell inspect, and try again
  | 'SW_NO_PRIMARY' // no server is elected that could answer; what was asked for may still be done
  // Remedy: start a second index server; read the key before trying again
  | 'SW_COORDINATION' // the coordination service cannot be reached, or refuses
  // Remedy: check that etcd runs, and the address and credentials given
  | 'SW_RECORD_CORRUPT' // a record does not match its checksum
  // Remedy: run stepwell check; write the record again
  | 'SW_ADDRESS_IN_USE' // another server already listens on this host and port
  // Remedy: choose another port, or stop the other server
  | 'SW_NODE_UNREACHABLE' // a memory node cannot be reached, or went away; outcomes are unknown
  // Remedy: check that the node runs and the address; the store reconnects at the next call
  | 'SW_UNAUTHENTICATED' // a memory node wants another secret, or its certificate is not trusted
  // Remedy: give the secret of the nodes, or the certificate as tls: { ca }
  | 'SW_PROTOCOL' // what arrived from the other end of a connection cannot be understood
  // Remedy: use the same version on both ends, and tls: for a node with TLS
  | 'SW_LEASE_LOST' // a lease is over: it was released, its store was closed, or it was lost
  // Remedy: stop the work that the lease protects, and take a new lease
  | 'SW_ABORTED' // the caller's AbortSignal was aborted
  // Remedy: none is needed; a call that was under way may have happened
  | 'SW_REVOKED' // other clients took this one for dead; it must open the pool again
  // Remedy: open the pool again; look for what stopped this process so long
  | 'SW_READ_ONLY' // the store was opened for reading, or a memory node lets this client only read
  // Remedy: open the store without readOnly, or with the secret for writing
  | 'SW_CLOSED'; // the store or pool has been closed
// Remedy: open the store again

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

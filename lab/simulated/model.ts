/**
 * The constants of a network. Times are in nanoseconds, rates per second. All nodes of a simulation
 * have the same NIC; no experiment changes these constants to fit its figure.
 */
export interface NetworkModel {
  readonly name: string;
  /** Both ways through wire, switch and PCIe, without the service times of the resources below. */
  readonly roundTripNs: number;
  /** Requests that a NIC processes, sent and received together. */
  readonly messagesPerSecond: number;
  /** Bandwidth of a NIC's link in each direction. */
  readonly bitsPerSecond: number;
  /** Bytes that a message takes on the link besides its payload. */
  readonly headerBytes: number;
  /** Payloads move to and from host memory in packets; each one after the first adds packetNs. */
  readonly packetBytes: number;
  readonly packetNs: number;
  /** A READ or WRITE touches its lines at random times within a window of this length. */
  readonly readWindowNs: number;
  readonly writeWindowNs: number;
  /** CAS and FAA that a memory node executes, on any words. */
  readonly atomicsPerSecond: number;
  /** How long one CAS or FAA locks its word. */
  readonly wordNs: number;
  /** Client CPU time of resuming a coroutine, and of posting and completing a verb. */
  readonly stepNs: number;
  readonly verbNs: number;
  /** Two-sided calls: how many threads of a memory node answer them, and the time of each call. */
  readonly callCores: number;
  readonly callNs: number;
}

/**
 * InfiniBand at 100 Gb/s with ConnectX-5 NICs, the hardware of RACE and SepHash. The README says
 * how well each constant is supported. In brackets: the paper that a constant comes from.
 */
export const CONNECTX5: NetworkModel = {
  name: 'cx5',
  // With client CPU and service times an operation's round trip takes 2.2-2.5 us: [SepHash] has a
  // median RACE insert of 7.4 us in 3 round trips.
  roundTripNs: 1000,
  // [SHARD] 15.5 M searches/s of 2 READs over 3 NICs.
  messagesPerSecond: 10e6,
  bitsPerSecond: 100e9,
  // InfiniBand: LRH 8, BTH 12, RETH 16, ICRC 4, VCRC 2.
  headerBytes: 42,
  // [SepHash] Latency has its knee at the PCIe packet of 256 B; PCIe 3.0 x16 moves one in 16 ns, at
  // both ends.
  packetBytes: 256,
  packetNs: 32,
  // Assumed: long enough that a WRITE occasionally overtakes the READ ahead of it.
  readWindowNs: 150,
  writeWindowNs: 50,
  // [SepHash] 5.6.3: inserts are bound by CAS; Table 1 has 1.57 M inserts/s of 6.05 tries each at
  // 128 clients, so 1.57 to 9.5 M CAS/s. This is the geometric middle, good to a factor of 2.5.
  atomicsPerSecond: 4e6,
  // Assumed: the NIC reads the word over PCIe and writes it back while it is locked.
  wordNs: 700,
  // [RACE] Figure 21: 16 coroutines make searches 2.6 times as fast, limited by the CPU. This fixes
  // what a search costs (3 verbs, 3 steps); how it is shared between verbs and steps comes from
  // the figure's other three gains, with the paper's numbers of verbs. So it is no test of them.
  stepNs: 100,
  verbNs: 450,
  // [RACE] 5.1: one thread answers allocations. [SHARD] Outback, an RPC a search, is 1.2 times
  // slower than 14.5 M/s on 3 x 4 cores of memory nodes: 1.0 M calls/s a core.
  callCores: 1,
  callNs: 1000,
};

/**
 * Ethernet at 100 Gb/s with ConnectX-6 NICs, the hardware of CHIME (section 5.1). Constants that
 * the paper does not give are those of CONNECTX5.
 */
export const CONNECTX6: NetworkModel = {
  ...CONNECTX5,
  name: 'cx6',
  // RoCE v2: preamble and gap 20, Ethernet 18, IP 20, UDP 8, BTH 12, AETH 4, ICRC 4.
  headerBytes: 86,
  // [CHIME] Figure 4c and section 3.2.3: 1-entry READs are bound by messages, and at least 1.3
  // times as many as READs of 8 entries, which are bound by bandwidth. An entry has 16 bytes of key
  // and value and 4 of metadata (section 4.5): 100 Gb/s are 50.8 M/s of 8 of them.
  messagesPerSecond: 66e6,
  // [CHIME] section 5.3: 320 clients do not saturate these 50.8 M/s, more than 500 do. 500 searches
  // of one round trip in 9.8 us each, less what the client's CPU takes (2 us).
  roundTripNs: 7800,
};

/** Node sockets on the loopback device, as measured from Node. */
const LOOPBACK_TCP: NetworkModel = {
  name: 'tcp',
  // 80-95 us for one verb, with everything below.
  roundTripNs: 82_000,
  // 128 verbs in one write reach about 1 M verbs/s.
  messagesPerSecond: 1e6,
  bitsPerSecond: Number.POSITIVE_INFINITY,
  headerBytes: 0,
  packetBytes: 65_536,
  packetNs: 0,
  readWindowNs: 100,
  writeWindowNs: 100,
  // The memory node executes verbs one by one, atomics like the others.
  atomicsPerSecond: 1e6,
  wordNs: 0,
  // A promise a step, about 1 us.
  stepNs: 1000,
  verbNs: 100,
  callCores: 1,
  callNs: 1000,
};

/** Memory of the same machine, as measured from Node. */
export const SHARED_MEMORY: NetworkModel = {
  name: 'shm',
  // A dependent random READ takes 380-450 ns with 4 KiB pages, with everything below.
  roundTripNs: 160,
  messagesPerSecond: Number.POSITIVE_INFINITY,
  bitsPerSecond: Number.POSITIVE_INFINITY,
  headerBytes: 0,
  packetBytes: 65_536,
  packetNs: 0,
  readWindowNs: 20,
  writeWindowNs: 20,
  // An uncontended CAS takes 70-100 ns.
  atomicsPerSecond: Number.POSITIVE_INFINITY,
  wordNs: 85,
  // A flat generator costs 0-200 ns; independent READs 100-260 ns each.
  stepNs: 100,
  verbNs: 150,
  callCores: 1,
  callNs: 1000,
};

export const PRESETS: readonly NetworkModel[] = [CONNECTX5, CONNECTX6, LOOPBACK_TCP, SHARED_MEMORY];

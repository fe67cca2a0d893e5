import { Queue as BullQueue, Worker as BullWorker } from 'bullmq';
import { queue } from '../../../src/helpers/index.ts';
import { openSync } from '../../../src/store/open.ts';

export const PEERS = ['stepwell', 'bullmq'] as const;
export type PeerName = (typeof PEERS)[number];

/** What a job of the benchmark says; `at` is the time of its addition in nanoseconds. */
export interface Data {
  readonly to: string;
  readonly at: string;
}

/** Where the queues of the peers are. */
export interface Place {
  readonly url: string;
  readonly redisPort: number;
}

export interface JobPeer {
  readonly name: PeerName;
  add(data: Data): Promise<unknown>;
  /** Adds all of them in the way that the peer has for that. */
  addMany(all: readonly Data[]): Promise<unknown>;
  /** Handles and completes `count` jobs, of which so many at once. */
  workOff(count: number, atOnce: number, handle: (data: Data) => void): Promise<void>;
  close(): Promise<void>;
}

const NAME = 'bench';

export function peerOf(name: PeerName, place: Place): JobPeer {
  return name === 'stepwell' ? stepwellPeer(place) : bullPeer(place);
}

function stepwellPeer({ url }: Place): JobPeer {
  const store = openSync(url, { store: 'jobs', index: 'chime' });
  const jobs = queue<Data>(store, NAME);
  return {
    name: 'stepwell',
    add: (data) => jobs.add(data),
    addMany: (all) => Promise.all(all.map((data) => jobs.add(data))),
    workOff: async (count, atOnce, handle) => {
      for (let done = 0; done < count; ) {
        const taken = await jobs.takeMany(Math.min(atOnce, count - done));
        for (const { data } of taken) handle(data);
        await Promise.all(taken.map((job) => job.complete()));
        done += taken.length;
      }
    },
    close: async () => store.close(),
  };
}

function bullPeer({ redisPort: port }: Place): JobPeer {
  const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
  // As a queue of Stepwell does: jobs that are completed are gone.
  const defaultJobOptions = { removeOnComplete: true, attempts: 3 };
  const jobs = new BullQueue<Data>(NAME, { connection, defaultJobOptions });
  return {
    name: 'bullmq',
    add: (data) => jobs.add('job', data),
    addMany: (all) => jobs.addBulk(all.map((data) => ({ name: 'job', data }))),
    workOff: async (count, atOnce, handle) => {
      const handleJob = async ({ data }: { data: Data }) => handle(data);
      const options = { connection, concurrency: atOnce, autorun: false };
      const worker = new BullWorker<Data>(NAME, handleJob, options);
      await worker.waitUntilReady();
      let done = 0;
      const ended = new Promise<void>((resolve, reject) => {
        worker.on('completed', () => {
          if (++done === count) resolve();
        });
        worker.on('failed', (_, error) => reject(error));
        worker.on('error', reject);
      });
      const running = worker.run();
      await ended;
      await worker.close();
      await running;
    },
    close: async () => {
      await jobs.close();
    },
  };
}

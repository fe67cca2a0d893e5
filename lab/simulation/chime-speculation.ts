import { CHIME_HARDWARE, HOTSPOTS, RECORDS, rateRow, ratioRow, runChime } from './chime-load.ts';
import type { Experiment } from './experiment.ts';

const CLIENTS = [80, 320, 640] as const;
/** Section 5.3: a gain of up to 1.2 times with more than 500 clients, little with fewer. */
const PUBLISHED: Readonly<Record<number, number>> = { 320: 1, 640: 1.2 };
/** Keys in the buffer (Figure 19c): the shares of the paper's 10 to 50 MB for 60 million keys. */
const SIZES = [512, 1024, 2048, 4096] as const;

/** Speculative reads, by number of clients and by size of the buffer. */
export const chimeSpeculation: Experiment = {
  name: 'chime-speculation',
  hardware: CHIME_HARDWARE,
  run(settings) {
    const rows = CLIENTS.flatMap((clients) => {
      const plain = runChime(settings, { clients });
      const speculating = runChime(settings, { clients, hotspots: HOTSPOTS });
      const gain = speculating.rate / plain.rate;
      const faster = plain.latencies.quantile(0.5) / speculating.latencies.quantile(0.5);
      return [
        rateRow(`17, searches, ${clients} clients`, plain),
        rateRow(`17, searches, ${clients} clients, speculating`, speculating),
        ratioRow(`17, ${clients} clients: speculating to not`, gain, PUBLISHED[clients]),
        ratioRow(`17, ${clients} clients: median latency, not to speculating`, faster),
      ];
    });
    for (const hotspots of SIZES) {
      const share = ((100 * hotspots) / RECORDS).toFixed(1);
      const run = runChime(settings, { clients: 640, hotspots });
      rows.push(rateRow(`19c, searches, 640 clients, ${share} % of the keys`, run));
    }
    const notes = [
      `YCSB C (Zipf 0.99) of ${RECORDS} records, ${HOTSPOTS} keys (3.4 %; the paper 3.3 %) in a`,
      'hotspot buffer of each compute node.',
    ];
    return { title: 'CHIME: speculative reads (Figures 17, 19c)', rows, notes };
  },
};

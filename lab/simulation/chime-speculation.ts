import { rateRow, ratioRow, runChime } from './chime-load.ts';
import type { Experiment } from './experiment.ts';

const CLIENTS = [64, 320, 640] as const;
const HOTSPOTS = 8192;

/** Speculative reads with more and more clients. */
export const chimeSpeculation: Experiment = {
  name: 'chime-speculation',
  run(settings) {
    const rows = CLIENTS.flatMap((clients) => {
      const plain = runChime(settings, { clients });
      const speculating = runChime(settings, { clients, hotspots: HOTSPOTS });
      const gain = speculating.rate / plain.rate;
      const faster = plain.latencies.quantile(0.5) / speculating.latencies.quantile(0.5);
      const published = clients > 500 ? 1.2 : undefined;
      return [
        rateRow(`searches, ${clients} clients`, plain),
        rateRow(`searches, ${clients} clients, speculating`, speculating),
        ratioRow(`${clients} clients: speculating to not`, gain, published),
        ratioRow(`${clients} clients: median latency, not to speculating`, faster),
      ];
    });
    const notes = [
      `YCSB C (Zipf 0.99), ${HOTSPOTS} keys in a hotspot buffer that all clients share.`,
    ];
    return { title: 'CHIME: speculative reads (Figure 17)', rows, notes };
  },
};

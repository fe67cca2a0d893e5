import type { NetworkModel } from '../simulated/model.ts';

export interface Settings {
  model: NetworkModel;
  seed: number;
  /** Operations of each kind that are measured at least. */
  operations: number;
}

/** One figure of ours, beside the paper's where its text gives one. */
export interface Row {
  what: string;
  ours: number;
  unit: string;
  published?: number;
  /** What a figure is made of. */
  detail?: string;
  /** The same as numbers, for --json. */
  figures?: Record<string, number | number[]>;
}

export interface Outcome {
  title: string;
  rows: Row[];
  /** Set-up, and where it is not the paper's. */
  notes: string[];
}

export interface Experiment {
  name: string;
  /** Name of the model of the paper's hardware, beside which alone its figures stand. */
  hardware?: string;
  run(settings: Settings): Outcome;
}

import type { NetworkModel } from '../simulated/model.ts';

export interface Settings {
  model: NetworkModel;
  seed: number;
  /** How many operations of each kind to measure, at least. */
  operations: number;
}

/** A figure of ours, beside the paper's where its text gives one. */
export interface Row {
  what: string;
  ours: number;
  unit: string;
  published?: number;
  /** Explains the figure, in words. */
  detail?: string;
  /** The figures behind it, for --json. */
  figures?: Record<string, number | number[]>;
}

export interface Outcome {
  title: string;
  rows: Row[];
  /** The set-up, and how it differs from the paper's. */
  notes: string[];
}

export interface Experiment {
  name: string;
  /** The preset of the paper's hardware. The paper's figures are shown for no other preset. */
  hardware?: string;
  run(settings: Settings): Outcome;
}

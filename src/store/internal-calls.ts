/** A record of any kind, as a store holds it; for copying stores. */
export interface CopiedRecord {
  key: Uint8Array;
  value: Uint8Array;
  codec: number;
  /** Undefined for never. Copying keeps a deadline, and restarts a sliding time. */
  expiry: { deadline: number; sliding: boolean } | undefined;
}

/** What a decision may depend on, besides the state that was found. */
export interface StateLook {
  /** The time of day by this client's clock, in milliseconds. */
  readonly now: number;
  /** Names this client for as long as it is attached. */
  readonly self: number;
  /** Whether the client can no longer issue verbs. */
  isGone(client: number): boolean;
}

export interface StateChange<T> {
  result: T;
  /** The new state, as JSON; null removes it, undefined keeps it. */
  next?: unknown;
  /** When it may be forgotten, in milliseconds since 1970; never when left out. */
  keepUntil?: number;
}

/** A state of a helper with its name. */
export interface NamedState {
  readonly name: string;
  readonly state: unknown;
}

/** States that a client has read, and the time of day by its clock. */
export interface StatesRead {
  readonly now: number;
  /** Whether the store has a bound, which may refuse a longer state. */
  readonly isBounded: boolean;
  readonly states: readonly NamedState[];
}

/** Decides the change to the state that was found, undefined if there was none. */
export type Decide<T> = (state: unknown, look: StateLook) => StateChange<T>;

/** A call may take this many times as long as a frame of verbs. */
const CALL_FACTOR = 4;

/**
 * Detects a node that sends heartbeats but does not answer. Frames are answered in order, so the
 * oldest one must not wait long; a call may take longer.
 */
export class StuckWatch {
  #frame: number | undefined;
  #frameTicks = 0;
  #call: number | undefined;
  #callTicks = 0;

  /**
   * To be called once a tick with the oldest unanswered frame and call. Returns whether either has
   * been the oldest for too long.
   */
  tick(frame: number | undefined, call: number | undefined, ticksMax: number): boolean {
    this.#frameTicks = frame !== undefined && frame === this.#frame ? this.#frameTicks + 1 : 0;
    this.#callTicks = call !== undefined && call === this.#call ? this.#callTicks + 1 : 0;
    this.#frame = frame;
    this.#call = call;
    return this.#frameTicks > ticksMax || this.#callTicks > CALL_FACTOR * ticksMax;
  }
}

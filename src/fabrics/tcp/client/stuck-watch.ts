/** A call may take this many times as long as a verb. */
const CALL_PATIENCE = 4;

/**
 * Tells a node that lives and does not answer. Answers to frames come in order, so the oldest one
 * cannot wait long; calls may take their time.
 */
export class StuckWatch {
  #frame: number | undefined;
  #frameTicks = 0;
  #call: number | undefined;
  #callTicks = 0;

  /** Takes the oldest frame and call, once a tick; returns whether either has waited too long. */
  tick(frame: number | undefined, call: number | undefined, ticksMax: number): boolean {
    this.#frameTicks = frame !== undefined && frame === this.#frame ? this.#frameTicks + 1 : 0;
    this.#callTicks = call !== undefined && call === this.#call ? this.#callTicks + 1 : 0;
    this.#frame = frame;
    this.#call = call;
    return this.#frameTicks > ticksMax || this.#callTicks > CALL_PATIENCE * ticksMax;
  }
}

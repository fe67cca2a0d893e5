/**
 * What a connection says about itself, and what it was refused: a client that pipelines sends the
 * commands behind a refused one before it reads the refusal.
 */
export class ConnectionState {
  readonly id: number;
  name = '';
  libraryName = '';
  libraryVersion = '';
  /** Set by QUIT: the connection ends after the replies written so far. */
  ended = false;
  /** From a refused MULTI up to EXEC, DISCARD or RESET: nothing in between runs. */
  inRefusedTransaction = false;
  /** From a refused SELECT up to one that is granted, or RESET: no command reaches a key. */
  inRefusedDatabase = false;

  constructor(id: number) {
    this.id = id;
  }

  /** Whether some commands that were served otherwise are refused now. */
  get isRefusing(): boolean {
    return this.inRefusedTransaction || this.inRefusedDatabase;
  }

  /** RESET: as after connecting, but for what the library told of itself. */
  reset(): void {
    this.name = '';
    this.inRefusedTransaction = false;
    this.inRefusedDatabase = false;
  }
}

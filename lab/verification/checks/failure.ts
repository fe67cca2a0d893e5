export type FailureKind = 'linearizability' | 'reclamation' | 'structure' | 'liveness' | 'error';

/** What a run ended with that must not be. */
export class VerificationFailure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, text: string, cause?: unknown) {
    super(text, { cause });
    this.kind = kind;
  }
}

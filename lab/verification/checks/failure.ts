export type FailureKind = 'linearizability' | 'reclamation' | 'structure' | 'liveness' | 'error';

/** The failure that ended a run. */
export class VerificationFailure extends Error {
  readonly kind: FailureKind;

  constructor(kind: FailureKind, text: string, cause?: unknown) {
    super(text, { cause });
    this.kind = kind;
  }
}

import { OutputClosed } from '../failures.ts';

/** The part of a writable stream that commands need, such as process.stdout. */
export interface Sink {
  write(chunk: string | Uint8Array): boolean;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'resize', listener: () => void): unknown;
  once(event: 'drain', listener: () => void): unknown;
  off(event: 'drain' | 'resize', listener: () => void): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** Standard output or error, with backpressure, which ends silently when the reader is gone. */
export class Output {
  readonly isTTY: boolean;
  readonly #sink: Sink;
  #failure: Error | undefined;
  #wake: (() => void) | undefined;

  constructor(sink: Sink) {
    this.#sink = sink;
    this.isTTY = sink.isTTY === true;
    sink.on('error', (error) => {
      this.#failure ??= error;
      this.#wake?.();
    });
  }

  /** Not cached, because a terminal may be resized. Some report 0 if they do not know. */
  get columns(): number {
    return this.#sink.columns || 80;
  }

  get rows(): number {
    return this.#sink.rows || 24;
  }

  onResize(listener: () => void): void {
    this.#sink.on('resize', listener);
  }

  offResize(listener: () => void): void {
    this.#sink.off('resize', listener);
  }

  /** Resolves when the sink accepts more. */
  async write(chunk: string | Uint8Array): Promise<void> {
    this.#refuseAfterFailure();
    if (this.#sink.write(chunk)) return;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      this.#sink.once('drain', resolve);
    });
    this.#sink.off('drain', this.#wake!);
    this.#wake = undefined;
    this.#refuseAfterFailure();
  }

  async line(text: string): Promise<void> {
    await this.write(`${text}\n`);
  }

  /** For progress bars and error messages, which must not fail or wait. */
  writeNow(text: string): void {
    if (this.#failure === undefined) this.#sink.write(text);
  }

  #refuseAfterFailure(): void {
    if (this.#failure === undefined) return;
    if ((this.#failure as NodeJS.ErrnoException).code === 'EPIPE') throw new OutputClosed();
    throw this.#failure;
  }
}

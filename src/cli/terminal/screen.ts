import type { Context, ExitHost } from '../context.ts';

const ALTERNATE = '\x1b[?1049h';
const BACK = '\x1b[?1049l';
const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const HOME = '\x1b[H';
const ERASE_LINE_END = '\x1b[K';
const ERASE_BELOW = '\x1b[J';
/** Terminals that know it show what is between the two at once; others leave it out. */
const BEGIN_TOGETHER = '\x1b[?2026h';
const END_TOGETHER = '\x1b[?2026l';

const CTRL_C = '\x03';

/**
 * The whole terminal, for a view that is drawn again and again. `close` brings back what was there;
 * so does the end of the process.
 */
export class Screen {
  readonly #context: Pick<Context, 'stdin' | 'stdout'>;
  readonly #host: ExitHost;
  readonly #onKey: (key: string) => void;
  readonly #onResize: () => void;
  readonly #leave = () => this.#restore();
  readonly #hangUp = () => this.#host.exit(129);
  readonly #typed = (data: Uint8Array | string) => {
    for (const key of data.toString()) this.#onKey(key === CTRL_C ? 'q' : key);
  };
  #isOpen = true;

  /** `onKey` gets each character that is typed, Ctrl-C as `q`. */
  constructor(
    context: Pick<Context, 'stdin' | 'stdout'>,
    host: ExitHost,
    onKey: (key: string) => void,
    onResize: () => void,
  ) {
    this.#context = context;
    this.#host = host;
    this.#onKey = onKey;
    this.#onResize = onResize;
    host.on('exit', this.#leave);
    host.on('SIGHUP', this.#hangUp);
    const { stdin, stdout } = context;
    stdin.setRawMode?.(true);
    stdin.on('data', this.#typed);
    stdin.resume();
    stdout.onResize(this.#onResize);
    stdout.writeNow(ALTERNATE + HIDE_CURSOR);
  }

  /** In one write, line over line: nothing is erased before it is drawn again. */
  draw(lines: readonly string[]): void {
    if (!this.#isOpen) return;
    const text = lines.join(`${ERASE_LINE_END}\r\n`);
    const frame = `${HOME}${text}${ERASE_LINE_END}${ERASE_BELOW}`;
    this.#context.stdout.writeNow(BEGIN_TOGETHER + frame + END_TOGETHER);
  }

  #restore(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    const { stdin, stdout } = this.#context;
    stdout.writeNow(SHOW_CURSOR + BACK);
    stdin.setRawMode?.(false);
  }

  close(): void {
    this.#restore();
    this.#host.off('exit', this.#leave);
    this.#host.off('SIGHUP', this.#hangUp);
    const { stdin, stdout } = this.#context;
    stdin.off('data', this.#typed);
    stdin.pause();
    stdout.offResize(this.#onResize);
  }
}

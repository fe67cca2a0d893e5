import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Runs programs of Windows in Debian's wine, in a Windows of their own. */
export class Wine {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;
  #runs = 0;

  /** Makes that Windows in a folder. Raises an error where wine is not installed. */
  constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder;
    const own = { WINEPREFIX: join(folder, 'windows'), WINEARCH: 'win64', WINEDEBUG: '-all' };
    // Node asks for the version of Windows that wine 8 reports by default to be a later one.
    this.#env = { ...process.env, ...env, ...own, NODE_SKIP_PLATFORM_CHECK: '1' };
    this.#prepare('wineboot', '--init');
    const key = 'HKEY_CURRENT_USER\\Software\\Wine';
    this.#prepare('wine', 'reg', 'add', key, '/v', 'Version', '/d', 'win10', '/f');
  }

  #prepare(program: string, ...words: string[]): void {
    const { error, status } = spawnSync(program, words, { env: this.#env, stdio: 'ignore' });
    if (error) throw new Error(`${program} does not start: apt-get install wine`, { cause: error });
    if (status !== 0) throw new Error(`${program} ended with ${status}`);
  }

  /** Runs a program to its end, and then prints what it wrote: a pipe of this system is none there. */
  async run(words: readonly string[], cwd: string): Promise<number> {
    const path = join(this.#folder, `output-${++this.#runs}`);
    const output = openSync(path, 'w');
    const stdio = ['ignore', output, output] as const;
    const child = spawn('wine', words, { cwd, env: this.#env, stdio: [...stdio] });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => this.end());
    }
    const [code] = await once(child, 'close');
    closeSync(output);
    process.stdout.write(readFileSync(path));
    return code ?? 1;
  }

  /** Ends whatever still runs in it. */
  end(): void {
    spawnSync('wineserver', ['--kill'], { env: this.#env, stdio: 'ignore' });
    spawnSync('wineserver', ['--wait'], { env: this.#env, stdio: 'ignore' });
  }
}

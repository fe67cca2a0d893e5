import { readFileSync } from 'node:fs';
import { Passwords } from '../../gateway/passwords.ts';
import type { PoolHandle } from '../../store/api.ts';
import type { WebServer } from '../../web/server.ts';
import { defineCommand } from '../command.ts';
import { aborted, type Context } from '../context.ts';
import { EXIT } from '../failures.ts';
import { listenPlace, TLS_OPTIONS, tlsFrom } from '../store-options.ts';
import { styleFor } from '../terminal/style.ts';

const DEFAULT_LISTEN = '127.0.0.1:6390';

export const web = defineCommand({
  name: 'web',
  arguments: '<url>',
  summary: 'Serve a page about a pool: live charts, a browser of keys, pictures of each index',
  details:
    '  The page only reads. It is served on loopback addresses alone unless there is a password\n' +
    '  file, with a line for each user: USER PASSWORD. Then it may listen on any host; add TLS\n' +
    '  where others could listen in. For memory nodes it needs only the secret for reading.\n' +
    '  Ctrl-C ends it. `stepwell serve --web` serves the page beside a Redis gateway.',
  options: {
    listen: {
      value: 'HOST:PORT',
      about: `Where the page is served, port 0 for any free one (default: ${DEFAULT_LISTEN})`,
    },
    'password-file': { value: 'PATH', about: 'Admit only users listed in this file' },
    ...TLS_OPTIONS,
  },
  examples: ['web shm:demo', 'web tcp://127.0.0.1:7471 --listen 127.0.0.1:8080'],
  async run(context, [url], options) {
    const { signal } = context;
    const page = await startPage(context, url, url, options.listen ?? DEFAULT_LISTEN, options);
    try {
      const style = styleFor(context.stdout.isTTY, context.env);
      await context.stdout.line(`Page about ${url} on ${style.bold(page.url)}`);
      await context.stdout.line('Ctrl-C ends it.');
      await aborted(signal);
    } finally {
      await page.close();
    }
    return EXIT.ok;
  },
});

/** Starts the page with the passwords and the certificate that the options name. */
export async function startPage(
  context: Context,
  place: string | PoolHandle,
  url: string,
  listen: string,
  options: { [name in 'password-file' | 'tls-cert' | 'tls-key']: string | undefined },
): Promise<WebServer> {
  const serve = await context.serveWeb();
  return await serve({
    place,
    url,
    ...listenPlace(listen),
    passwords: passwordsFrom(options['password-file']),
    tls: tlsFrom(options['tls-cert'], options['tls-key']),
  });
}

/** The users and passwords in a file, or undefined without a path. */
export function passwordsFrom(path: string | undefined): Record<string, string> | undefined {
  return path === undefined ? undefined : Passwords.parse(readFileSync(path, 'utf8'));
}

import { readFileSync } from 'node:fs';
import { UsageError } from './failures.ts';

/** What `--tls-cert` and `--tls-key` name, read; `example` shows how a command takes them. */
export function tlsFrom(
  cert: string | undefined,
  key: string | undefined,
  example: string,
): { cert: string; key: string } | undefined {
  if (cert === undefined && key === undefined) return undefined;
  if (cert === undefined || key === undefined) {
    throw new UsageError('--tls-cert and --tls-key belong together', example);
  }
  return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
}

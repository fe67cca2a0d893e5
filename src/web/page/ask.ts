import type { Failure } from '../messages.ts';

/** Asks the server. Throws an error with its message if it refuses. */
export async function ask<T>(
  path: string,
  query: Readonly<Record<string, string | number | null>> = {},
): Promise<T> {
  const given = Object.entries(query).filter(([, value]) => value !== null);
  const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  const response = await fetch(`/api/${path}?${words}`);
  if (!response.ok) {
    const { message, code } = (await response.json()) as Failure;
    throw new Error(code === 'REFUSED' ? message : `${message} (${code})`);
  }
  return (await response.json()) as T;
}

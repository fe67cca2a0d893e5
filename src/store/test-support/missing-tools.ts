import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';

/** Absent tools skip a test on a developer's machine, and fail it where they must be installed. */
export function isMissing(tool: string): false | string {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const found = folders.some((folder) => existsSync(join(folder, tool)));
  return found || process.env.CI ? false : `${tool} is not installed`;
}

/** The same of an optional package. */
export function isMissingPackage(name: string): false | string {
  try {
    createRequire(import.meta.url).resolve(name);
    return false;
  } catch {
    return process.env.CI ? false : `the package ${name} is not installed`;
  }
}

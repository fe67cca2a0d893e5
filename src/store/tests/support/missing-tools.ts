import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';

/** Absent tools skip a test on a developer's machine, and fail it where they must be installed. */
export function isMissing(tool: string): false | string {
  return isInstalled(tool) || process.env.CI ? false : `${tool} is not installed`;
}

export function isInstalled(tool: string): boolean {
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.some((folder) => existsSync(join(folder, tool)));
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

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { RUNTIME } from '../../../src/store/tests/support/runtime.ts';

/** Runs a program of the workbench as its user does, and returns all that it printed. */
export function runLab(
  program: string,
  options: readonly string[],
): Promise<{ code: number | null; output: string }> {
  const script = fileURLToPath(new URL('../../main.ts', import.meta.url));
  const child = spawn(process.execPath, [...RUNTIME, script, program, ...options]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += chunk;
    });
  }
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })));
}

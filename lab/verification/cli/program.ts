import type { Program } from '../../../src/cli/command.ts';
import { verify } from './verify.ts';

export const VERIFICATION: Program = {
  name: 'stepwell-lab',
  commands: [verify],
  examples: verify.examples,
};

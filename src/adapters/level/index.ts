export { StepwellLevel, type StepwellLevelOptions } from './stepwell-level.ts';

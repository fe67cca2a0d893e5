export * from './address.ts';
export * from './batch.ts';
export * from './fabric.ts';
export * from './operation.ts';
export * from './runners.ts';
export * from './scratch.ts';
export * from './traffic.ts';
export * from './words.ts';

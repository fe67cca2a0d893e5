/** Every command that the gateway serves: a file exports the commands of a family, and no more. */
export * from './bits.ts';
export * from './channels.ts';
export * from './command.ts';
export * from './config.ts';
export * from './connection.ts';
export * from './expiry.ts';
export * from './keys.ts';
export * from './ranges.ts';
export * from './server.ts';
export * from './strings.ts';
export * from './transactions.ts';

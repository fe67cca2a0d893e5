/** Nanoseconds of the monotonic clock, which every process of a machine shares. */
export type Clock = () => bigint;

export const monotonic: Clock = () => process.hrtime.bigint();

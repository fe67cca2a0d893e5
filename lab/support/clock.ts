/** Nanoseconds of the monotonic clock, which every process of a machine shares. */
export type Clock = () => bigint;

export const monotonic: Clock = () => process.hrtime.bigint();

/** Nanoseconds of processor time that all threads of this process have used. */
export const cpuTime: Clock = () => {
  const { user, system } = process.cpuUsage();
  return 1000n * BigInt(user + system);
};

/** Nanoseconds of the monotonic clock, which every process of a machine shares. */
export type Clock = () => bigint;

export const monotonic: Clock = () => process.hrtime.bigint();

/** What all threads of this process have used of the processors. */
export const cpuTime: Clock = () => {
  const { user, system } = process.cpuUsage();
  return 1000n * BigInt(user + system);
};

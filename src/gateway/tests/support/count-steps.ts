import { Session } from 'node:inspector';

/**
 * How often V8 enters a function or block of a module during each of the runs. Functions count
 * block by block only if they first run here.
 */
export async function countSteps(runs: readonly (() => Promise<void>)[]): Promise<number[]> {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  const steps: number[] = [];
  for (const run of runs) {
    await run();
    // Taking the counts resets them.
    session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error !== null) throw error;
      const scripts = taken.result.filter(({ url }) => !url.startsWith('node:'));
      const ranges = scripts.flatMap(({ functions }) => functions.flatMap((each) => each.ranges));
      steps.push(ranges.reduce((sum, { count }) => sum + count, 0));
    });
  }
  session.disconnect();
  return steps;
}

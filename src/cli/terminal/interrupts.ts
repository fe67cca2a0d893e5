import type { EventEmitter } from 'node:events';

/**
 * `npm start` and `npx` pass the terminal's Ctrl-C on to a child that has already got it from the
 * terminal, so one key press arrives twice. Two presses of a person are further apart than this.
 */
const ECHO_MS = 400;

export interface InterruptHost {
  process: Pick<EventEmitter, 'on'>;
  now(): number;
  exit(code: number): void;
}

/**
 * A signal that the first SIGINT or SIGTERM aborts, for commands that want to end in order. The
 * second one ends the process at once, should the orderly end hang.
 */
export function interruptSignal(host: InterruptHost): AbortSignal {
  const controller = new AbortController();
  let first = 0;
  const listen = (name: 'SIGINT' | 'SIGTERM', exitCode: number): void => {
    host.process.on(name, () => {
      if (!controller.signal.aborted) {
        first = host.now();
        controller.abort();
      } else if (host.now() - first > ECHO_MS) {
        host.exit(exitCode);
      }
    });
  };
  listen('SIGINT', 130);
  listen('SIGTERM', 143);
  return controller.signal;
}

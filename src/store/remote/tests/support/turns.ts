import { setImmediate } from 'node:timers/promises';
import { Prng } from '../../../../random/prng.ts';
import type { ConnectedNodes } from '../../node-heads.ts';

interface Step {
  client: number;
  go: () => Promise<unknown>;
}

/** Lets the calls and doorbells of several clients of memory nodes through one at a time. */
export class Turns {
  readonly #waiting: Step[] = [];
  readonly #prng: Prng;
  /** By client: how many steps it has left before it dies. */
  readonly #lives: number[] = [];

  constructor(seed: number) {
    this.#prng = Prng.fromSeed(seed);
  }

  /** The same nodes, for one client that dies after so many steps. */
  gate(fabric: ConnectedNodes, lives = Number.POSITIVE_INFINITY): ConnectedNodes {
    const client = this.#lives.push(lives) - 1;
    const turn = <T>(action: () => Promise<T>) =>
      new Promise<T>((resolve, reject) => {
        const go = () => action().then(resolve, reject);
        this.#waiting.push({ client, go });
      });
    return {
      nodes: fabric.nodes,
      welcomes: fabric.welcomes,
      traffic: fabric.traffic,
      call: (...words) => turn(() => fabric.call(...words)),
      post(batch, completion) {
        const posting = () =>
          new Promise<unknown>((resolve) => {
            fabric.post(batch, { completed: resolve });
          });
        turn(posting).then((error) => completion.completed(error));
      },
    };
  }

  /** Until each client has ended, or is dead. */
  async run<T>(clients: readonly Promise<T>[]): Promise<void> {
    let going = clients.length;
    for (const client of clients) {
      const ended = () => {
        going--;
      };
      client.then(ended, ended);
    }
    while (going > this.#dead) {
      const ready = this.#waiting.filter(({ client }) => this.#lives[client] > 0);
      if (ready.length > 0) {
        const step = ready[this.#prng.below(ready.length)];
        this.#lives[step.client]--;
        this.#waiting.splice(this.#waiting.indexOf(step), 1);
        await step.go();
      }
      await setImmediate();
    }
  }

  /** Clients with a step before them that they do not live to see. */
  get #dead(): number {
    const waiting = this.#waiting.filter(({ client }) => this.#lives[client] <= 0);
    return new Set(waiting.map(({ client }) => client)).size;
  }
}

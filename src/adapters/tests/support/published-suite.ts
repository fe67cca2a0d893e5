import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';

type Body = (context: { expect: Expect }) => unknown;

/** The part of vitest that published suites use: it gathers tests and runs them later. */
export class PublishedSuite {
  readonly #tests: [string, Body][] = [];
  readonly #before: (() => unknown)[] = [];
  readonly #after: (() => unknown)[] = [];

  readonly it = (title: string, body: Body) => this.#tests.push([title, body]);
  readonly beforeEach = (action: () => unknown) => this.#before.push(action);
  readonly afterEach = (action: () => unknown) => this.#after.push(action);

  /** One after the other; each is a test of its own. Returns how many there were. */
  async run(t: TestContext): Promise<number> {
    for (const [title, body] of this.#tests) {
      await t.test(title, async () => {
        for (const action of this.#before) await action();
        const counted = counting();
        await body({ expect: counted.expect });
        assert.equal(counted.made, counted.wanted ?? counted.made, 'assertions');
        for (const action of this.#after) await action();
      });
    }
    return this.#tests.length;
  }
}

type Matchers = ReturnType<typeof matchersOf>;
type Expect = ((actual: unknown) => Matchers) & { assertions(count: number): void };

function counting() {
  const seen = { made: 0, wanted: undefined as number | undefined };
  const expect = (actual: unknown) => {
    seen.made++;
    return matchersOf(actual);
  };
  expect.assertions = (count: number) => {
    seen.wanted = count;
  };
  return Object.assign(seen, { expect });
}

function matchersOf(actual: unknown) {
  return {
    toBe: (wanted: unknown) => assert.ok(Object.is(actual, wanted), `${actual} is ${wanted}`),
    toEqual: (wanted: unknown) => assert.deepEqual(actual, wanted),
    toBeTruthy: () => assert.ok(actual),
    toBeFalsy: () => assert.ok(!actual),
    toBeNull: () => assert.equal(actual, null),
    toBeUndefined: () => assert.equal(actual, undefined),
    toBeDefined: () => assert.notEqual(actual, undefined),
  };
}

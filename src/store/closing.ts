/** Gives back what a helper holds in the store; never rejects. */
export type CloseListener = () => Promise<void>;

/**
 * Tells listeners that a handle is about to be closed. Calls still work then, so a listener can
 * give back what it holds; closing waits for calls that it begins at once. A view is closed with
 * the handle that it is a view of.
 */
export class Closing {
  readonly #parent: Closing | undefined;
  readonly #listeners = new Set<CloseListener>();
  #isOver = false;

  constructor(parent?: Closing) {
    this.#parent = parent;
  }

  /**
   * Listens until the returned function is called. If the handle is closed already, tells it at
   * once.
   */
  listen(listener: CloseListener): () => void {
    const forget = this.#parent?.listen(listener);
    this.#listeners.add(listener);
    if (this.#isOver) listener();
    return () => {
      this.#listeners.delete(listener);
      forget?.();
    };
  }

  /** Tells all listeners. Settles when they have finished; undefined if there are none. */
  announce(): Promise<unknown> | undefined {
    this.#isOver = true;
    if (this.#listeners.size === 0) return undefined;
    return Promise.all([...this.#listeners].map((listener) => listener()));
  }
}

import type { AsyncStore, Key, Value } from '../store/api.ts';
import { breathe, type Context, throwIfInterrupted } from './context.ts';
import { InputError } from './failures.ts';
import type { LoadEntry } from './formats/dump-record.ts';
import { entryOf, type Mapping } from './formats/entries.ts';
import type { Input } from './formats/input.ts';
import type { Row, RowSource } from './formats/rows.ts';
import { plural } from './sizes.ts';
import { Progress } from './terminal/progress.ts';
import { printable } from './terminal/style.ts';

/** Bad records that are told one by one; of the rest there is only the count. */
const COMPLAINTS = 10;
const BATCHES_PER_BREATH = 64;

export interface LoadResult {
  records: number;
  skipped: number;
  seconds: number;
}

/** Moves rows into a store in batches, keeping count. */
export class Loader {
  readonly #context: Context;
  readonly #store: AsyncStore;
  readonly #input: Input;
  readonly #batchSize: number;
  readonly #skipErrors: boolean;
  readonly #sorted: boolean;
  readonly #progress: Progress;
  #batch: LoadEntry[] = [];
  #batches = 0;
  #records = 0;
  #skipped = 0;

  constructor(
    context: Context,
    store: AsyncStore,
    input: Input,
    options: { batch: number; skipErrors: boolean; sorted: boolean },
  ) {
    this.#context = context;
    this.#store = store;
    this.#input = input;
    this.#batchSize = options.batch;
    this.#skipErrors = options.skipErrors;
    this.#sorted = options.sorted;
    this.#progress = new Progress(context, 'loading', 'bytes');
  }

  async load(
    source: RowSource,
    columns: { key?: readonly string[] | undefined; value?: string | undefined },
  ): Promise<LoadResult> {
    const firstColumn = source.firstColumn ?? (() => undefined);
    const mapping: Mapping = { key: columns.key, value: columns.value, firstColumn };
    try {
      for await (const row of source.rows) {
        this.#take(row, mapping, source.unit);
        if (this.#sorted) await this.#gather(source);
        else if (this.#batch.length >= this.#batchSize) await this.#flush(source);
      }
      if (this.#sorted) await this.#storeSorted();
      else await this.#flush(source);
    } catch (error) {
      if (this.#sorted) this.#complain('nothing was stored');
      else await this.#tellWhatIsStored(error);
      throw error;
    } finally {
      this.#progress.clear();
    }
    const seconds = this.#progress.seconds;
    return { records: this.#records, skipped: this.#skipped, seconds };
  }

  #take(row: Row, mapping: Mapping, unit: string): void {
    try {
      const entry = entryOf(row, mapping);
      const cannotExpire = this.#sorted && entry.length > 2;
      if (cannotExpire) throw new InputError('a record that expires does not go with --sorted');
      this.#batch.push(entry);
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      const message = `${this.#input.name}, ${unit} ${row.at}: ${error.message}`;
      if (!this.#skipErrors) throw new InputError(message);
      this.#skipped++;
      if (this.#skipped <= COMPLAINTS) this.#complain(`skipped: ${message}`);
    }
  }

  /** The records are kept until all have been read. */
  async #gather(source: RowSource): Promise<void> {
    if (this.#batch.length % this.#batchSize === 0) await this.#advance(source, this.#batch.length);
  }

  async #flush(source: RowSource): Promise<void> {
    await this.#storeGathered();
    await this.#advance(source, this.#records);
  }

  async #storeSorted(): Promise<void> {
    this.#records = await this.#store.loadSorted(this.#batch.map(([key, value]) => [key, value]));
  }

  /** In the order of the file: the last record of a key stays. */
  async #storeGathered(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    let plain: [Key, Value][] = [];
    const storePlain = async () => {
      await this.#store.setMany(plain);
      this.#records += plain.length;
      plain = [];
    };
    for (const [key, value, expires] of batch) {
      if (expires === undefined) {
        plain.push([key, value]);
        continue;
      }
      await storePlain();
      await this.#store.set(key, value, expires);
      this.#records++;
    }
    await storePlain();
  }

  async #advance({ share }: RowSource, records: number): Promise<void> {
    const { total } = this.#input;
    const done = share === undefined ? this.#input.done() : share() * (total ?? 0);
    this.#progress.update(done, total, records);
    if (++this.#batches % BATCHES_PER_BREATH === 0) await breathe();
    throwIfInterrupted(this.#context.signal, 'interrupted');
  }

  /**
   * After a bad record the good ones before it are stored: a user who repairs the file counts on
   * it.
   */
  async #tellWhatIsStored(error: unknown): Promise<void> {
    if (error instanceof InputError) await this.#storeGathered();
    this.#complain(`${plural(this.#records, 'record')} stored before the end`);
  }

  #complain(message: string): void {
    this.#progress.clear();
    this.#context.stderr.writeNow(`${printable(message)}\n`);
  }
}

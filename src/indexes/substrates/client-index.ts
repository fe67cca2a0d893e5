import type { Operation } from '../../verbs/index.ts';
import type { IndexParameters } from '../contract.ts';
import type { RecordIo } from './record-io.ts';
import type { Request } from './request.ts';

/** A client's handle of an index: its table, or its tree. */
export interface IndexClient<R extends Request> {
  readonly records: RecordIo;
  readonly retries: Readonly<Record<string, number>>;
  newRequest(): R;
}

/** What the index contract wants to know of any index, as the client's handle and shape tell it. */
export abstract class ClientIndex<R extends Request, C extends IndexClient<R>> {
  protected readonly client: C;
  readonly #shape: object & { readonly seed: number };

  constructor(client: C, shape: object & { readonly seed: number }) {
    this.client = client;
    this.#shape = shape;
  }

  get parameters(): IndexParameters {
    return { ...this.#shape };
  }

  get records(): RecordIo {
    return this.client.records;
  }

  get retries(): Readonly<Record<string, number>> {
    return this.client.retries;
  }

  newRequest(): R {
    return this.client.newRequest();
  }

  touch(request: R): Operation<void> {
    return this.records.touch(request);
  }

  inheritUses(request: R): Operation<void> {
    return this.records.inheritUses(request);
  }
}

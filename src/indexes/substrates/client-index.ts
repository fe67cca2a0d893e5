import type { RecordIo } from './record-io.ts';
import type { Request } from './request.ts';

/** A client's handle of an index: its table, or its tree. */
export interface IndexClient<R extends Request> {
  readonly records: RecordIo;
  readonly retries: Readonly<Record<string, number>>;
  newRequest(): R;
}

/** What the index contract wants to know of any index, as the client's handle tells it. */
export abstract class ClientIndex<R extends Request, C extends IndexClient<R>> {
  protected readonly client: C;

  constructor(client: C) {
    this.client = client;
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
}

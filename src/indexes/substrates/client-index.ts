import type { RecordIo } from './record-io.ts';
import type { Request } from './request.ts';

/** A client's handle of an index: its table, or its tree. */
export interface IndexClient<R extends Request> {
  readonly records: RecordIo;
  newRequest(): R;
}

/** The part of the index contract that is the same for every index. */
export abstract class ClientIndex<R extends Request, C extends IndexClient<R>> {
  protected readonly client: C;

  constructor(client: C, tableUnits: () => readonly number[]) {
    this.client = client;
    client.records.tableUnits = tableUnits;
  }

  get records(): RecordIo {
    return this.client.records;
  }

  newRequest(): R {
    return this.client.newRequest();
  }
}

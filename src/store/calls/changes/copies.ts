import type { IndexWalk } from '../../../indexes/contract.ts';
import type { RecordIo } from '../../../indexes/substrates/record-io.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { CODEC_BYTES, decodeFrom } from '../../../records/codec.ts';
import type { Expiry } from '../../../records/times.ts';
import type { Operation } from '../../../verbs/index.ts';
import { foundKey } from '../ranges/takers.ts';

/** A record as it stands in a store, of whatever kind; for copying stores. */
export interface CopiedRecord {
  key: Uint8Array;
  value: Uint8Array;
  codec: number;
  /** Of a record that expires: a deadline stays what it is, a sliding time begins anew. */
  expiry: Expiry | undefined;
}

/** Records of a walk's next group that have not expired, also those that helpers keep. */
export function* copiesOf(walk: IndexWalk, records: RecordIo): Operation<CopiedRecord[]> {
  const copies: CopiedRecord[] = [];
  yield* walk.next((request, keyBytes) => {
    if (!records.isExpired(request)) copies.push(copyOf(request, keyBytes));
  });
  return copies;
}

function copyOf(request: Request, keyBytes: number): CopiedRecord {
  const { found, contentAt, contentBytes, foundCodec, foundExpiry } = request;
  return {
    key: foundKey(request, keyBytes),
    value: decodeFrom(found, contentAt, contentBytes, CODEC_BYTES) as Uint8Array,
    codec: foundCodec,
    expiry: foundExpiry,
  };
}

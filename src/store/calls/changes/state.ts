import { StepwellError } from '../../../errors.ts';
import type { Request } from '../../../indexes/substrates/request.ts';
import { CODEC_STATE } from '../../../records/codec.ts';
import { storedValue } from '../decoding.ts';

/** Of keys that callers hardly have. */
const STATE_PREFIX = '\u0000stepwell:';

export function stateKey(name: string): string {
  return STATE_PREFIX + name;
}

/** The state in the found record. Raises SW_UNDECODABLE for a record of a caller's. */
export function parseState(request: Request, key: string): unknown {
  if (request.foundCodec === CODEC_STATE) {
    return JSON.parse(storedValue(request, 'utf8') as string);
  }
  const why = `the key ${JSON.stringify(key)} has a value that is none of a helper's`;
  throw new StepwellError('SW_UNDECODABLE', `${why}: remove it, or use another name`);
}

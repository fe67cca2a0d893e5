import type { Operation } from '../../../verbs/index.ts';
import { keyword, parseInteger, ReplyError, SYNTAX_ERROR } from '../../arguments.ts';
import type { Command, CommandContext } from '../../command.ts';
import type { Request } from '../../protocol/request-reader.ts';
import { bitAt, lengthened, parseBitOffset, setBitAt } from '../support/bits.ts';
import { modify } from '../support/modify.ts';

type Overflow = 'WRAP' | 'SAT' | 'FAIL';

/** An integer of some bits somewhere in a value, and what is done with it. */
interface Step {
  readonly action: 'GET' | 'SET' | 'INCRBY';
  readonly signed: boolean;
  readonly width: number;
  readonly offset: number;
  readonly operand: bigint;
  readonly overflow: Overflow;
}

export const bitfield: Command = {
  name: 'bitfield',
  summary: 'Reads, sets and adds to integers of any width at any bit of a value.',
  group: 'bitmap',
  arity: -2,
  flags: ['write', 'denyoom'],
  keys: [1, 1, 1],
  *run(request, context) {
    const steps = parseSteps(request, context);
    if (steps.every(({ action }) => action === 'GET')) {
      yield* readOnly(request[1], steps, context);
      return;
    }
    let replies: (bigint | undefined)[] = [];
    let isChanged = false;
    const end = Math.max(
      ...steps.map(({ action, offset, width }) => (action === 'GET' ? 0 : offset + width)),
    );
    yield* modify(context.store, request[1], (old = Buffer.alloc(0)) => {
      // As in Redis the value grows also when each step fails.
      const value = lengthened(old, Math.ceil(end / 8));
      replies = steps.map((step) => apply(step, value));
      isChanged = value.length > old.length || !value.equals(old);
      return isChanged ? value : undefined;
    });
    write(replies, context);
    if (isChanged) yield* context.changed('$', 'setbit', request[1]);
  },
};

export const bitfieldRo: Command = {
  name: 'bitfield_ro',
  summary: 'Reads integers of any width at any bit of a value.',
  group: 'bitmap',
  arity: -2,
  flags: ['readonly', 'fast'],
  keys: [1, 1, 1],
  *run(request, context) {
    const steps = parseSteps(request, context);
    if (steps.some(({ action }) => action !== 'GET')) {
      throw new ReplyError('ERR BITFIELD_RO only supports the GET subcommand');
    }
    yield* readOnly(request[1], steps, context);
  },
};

function* readOnly(key: Buffer, steps: readonly Step[], context: CommandContext): Operation<void> {
  const value = (yield* context.store.get(key)) ?? new Uint8Array();
  write(
    steps.map((step) => fieldAt(value, step)),
    context,
  );
}

function write(replies: readonly (bigint | undefined)[], { reply }: CommandContext): void {
  reply.array(replies.length);
  for (const each of replies) {
    if (each === undefined) reply.null();
    else reply.integer(each);
  }
}

function parseSteps(request: Request, context: CommandContext): Step[] {
  const steps: Step[] = [];
  let overflow: Overflow = 'WRAP';
  for (let at = 2; at < request.length; ) {
    const name = keyword(request[at]);
    const left = request.length - at - 1;
    if (name === 'OVERFLOW' && left >= 1) {
      overflow = parseOverflow(request[at + 1]);
      at += 2;
    } else if (name === 'GET' && left >= 2) {
      steps.push(parseStep(name, request.slice(at + 1, at + 3), overflow, context));
      at += 3;
    } else if ((name === 'SET' || name === 'INCRBY') && left >= 3) {
      steps.push(parseStep(name, request.slice(at + 1, at + 4), overflow, context));
      at += 4;
    } else {
      throw new ReplyError(SYNTAX_ERROR);
    }
  }
  return steps;
}

function parseOverflow(argument: Buffer): Overflow {
  const name = keyword(argument);
  if (name === 'WRAP' || name === 'SAT' || name === 'FAIL') return name;
  throw new ReplyError('ERR Invalid OVERFLOW type specified');
}

function parseStep(
  action: Step['action'],
  [type, place, operand]: readonly Buffer[],
  overflow: Overflow,
  context: CommandContext,
): Step {
  const [, sign = '', digits = ''] =
    /^([iu])([1-9][0-9]?)$/.exec(type.subarray(0, 4).toString('latin1')) ?? [];
  const width = Number(digits);
  if (sign === '' || width > (sign === 'i' ? 64 : 63)) {
    throw new ReplyError(
      'ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but ' +
        'i64 is.',
    );
  }
  const offset = parseBitOffset(place, context, width);
  const value = operand === undefined ? 0n : parseInteger(operand);
  return { action, signed: sign === 'i', width, offset, operand: value, overflow };
}

/** Undefined for a step that fails by its overflow. */
function apply(step: Step, value: Uint8Array): bigint | undefined {
  const old = fieldAt(value, step);
  if (step.action === 'GET') return old;
  const wanted = step.action === 'SET' ? step.operand : old + step.operand;
  const stored = fit(wanted, step);
  if (stored === undefined) return undefined;
  for (let i = 0; i < step.width; i++) {
    const bit = Number((stored >> BigInt(step.width - 1 - i)) & 1n);
    setBitAt(value, step.offset + i, bit);
  }
  return step.action === 'SET' ? old : stored;
}

function fit(wanted: bigint, { signed, width, overflow }: Step): bigint | undefined {
  const bits = BigInt(width);
  const max = signed ? 2n ** (bits - 1n) - 1n : 2n ** bits - 1n;
  const min = signed ? -(2n ** (bits - 1n)) : 0n;
  if (wanted >= min && wanted <= max) return wanted;
  if (overflow === 'FAIL') return undefined;
  if (overflow === 'SAT') return wanted > max ? max : min;
  return signed ? BigInt.asIntN(width, wanted) : BigInt.asUintN(width, wanted);
}

function fieldAt(value: Uint8Array, { signed, width, offset }: Step): bigint {
  let bits = 0n;
  for (let i = 0; i < width; i++) bits = (bits << 1n) | BigInt(bitAt(value, offset + i));
  return signed ? BigInt.asIntN(width, bits) : bits;
}

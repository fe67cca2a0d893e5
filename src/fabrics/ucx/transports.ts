import { StepwellError } from '../../errors.ts';

/** How the verbs of a session run: the transports of UCX, and what they mean for the pool. */
export interface Transports {
  /** UCX's names, separated by commas. */
  names: string;
  /** UCX's name (`mlx5_0:1`, `lo`); if undefined, UCX_NET_DEVICES decides. */
  device: string | undefined;
  /** The unit that executes CAS and FAA at the node. A card's are not atomic with a processor's. */
  atomics: 'cpu' | 'device';
  /**
   * Whether all verbs of a session take a single path, which keeps their order. Otherwise a verb
   * waits for those that the contract orders before it.
   */
  isOnePath: boolean;
}

/** Transports whose verbs a processor of the node executes. */
const BY_PROCESSOR = ['tcp', 'posix', 'sysv'];
/** Transports whose verbs the network card of the node executes. */
const BY_DEVICE = ['rc', 'rc_v', 'rc_x', 'rc_verbs', 'rc_mlx5', 'dc', 'dc_x', 'dc_mlx5'];
/** Transports that carry only the messages by which the others connect. */
const AUXILIARY = ['ud', 'ud_v', 'ud_x', 'ud_verbs', 'ud_mlx5'];
const LOOPBACK = 'lo';

/**
 * Chooses transports. The default reaches only this machine; a named device selects the network
 * over which the node is reached. Raises SW_INVALID_ARGUMENT.
 */
export function transportsOf(names: string | undefined, device: string | undefined): Transports {
  const isNetwork = device !== undefined && device !== LOOPBACK;
  const list = (names ?? (isNetwork ? 'rc' : 'tcp')).split(',').map((name) => name.trim());
  const known = [...BY_PROCESSOR, ...BY_DEVICE, ...AUXILIARY];
  for (const name of list) {
    if (!known.includes(name)) {
      throw invalid(`no transport '${name}': choose of ${known.join(', ')}`);
    }
  }
  const carrying = list.filter((name) => !AUXILIARY.includes(name));
  if (carrying.length === 0) throw invalid(`transports ${list.join(',')} carry no verbs`);
  const byDevice = carrying.some((name) => BY_DEVICE.includes(name));
  if (byDevice && carrying.some((name) => BY_PROCESSOR.includes(name))) {
    const why = "a network card's atomics are not atomic with a processor's";
    throw invalid(`transports ${list.join(',')} cannot be used together: ${why}`);
  }
  if (byDevice && !isNetwork) {
    throw invalid(`transport ${list.join(',')} needs a device, such as mlx5_0:1 (ucx_info -d)`);
  }
  return {
    names: list.join(','),
    // Shared memory has devices of its own.
    device: device ?? (list.includes('tcp') ? LOOPBACK : undefined),
    atomics: byDevice ? 'device' : 'cpu',
    isOnePath: carrying.length <= 1,
  };
}

function invalid(message: string): StepwellError {
  return new StepwellError('SW_INVALID_ARGUMENT', message);
}

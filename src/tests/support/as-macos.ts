/** Imported first, by a process of a test: from then on it takes this system for macOS. */
import { loadKoffi } from '../../fabrics/shared/libc.ts';

// It has a library for each system, and has to find that of this one.
loadKoffi();
const platform = Object.getOwnPropertyDescriptor(process, 'platform');
Object.defineProperty(process, 'platform', { ...platform, value: 'darwin' });

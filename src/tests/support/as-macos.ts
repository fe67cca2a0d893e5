/** Imported first, by a process of a test: from then on it takes this system for macOS. */
import Module from 'node:module';

interface Resolver {
  _resolveFilename(name: string, ...rest: unknown[]): string;
}

const resolver = Module as unknown as Resolver;
const { _resolveFilename } = resolver;
const { platform } = process;
// It has a binary for each system, and has to find that of this one.
resolver._resolveFilename = (name, ...rest) =>
  _resolveFilename(name.replace('@koromix/koffi-darwin', `@koromix/koffi-${platform}`), ...rest);
const property = Object.getOwnPropertyDescriptor(process, 'platform');
Object.defineProperty(process, 'platform', { ...property, value: 'darwin' });

import { createHash, timingSafeEqual } from 'node:crypto';
import { StepwellError } from '../errors.ts';

const DEFAULT_USER = 'default';

/** Users and digests of their passwords. */
export class Passwords {
  readonly #digests = new Map<string, Buffer>();

  /** Passwords by user; `default` is for clients that name no user. */
  constructor(passwords: Readonly<Record<string, string>>) {
    for (const [user, password] of Object.entries(passwords)) {
      if (user === '' || password === '') {
        throw new StepwellError('SW_INVALID_ARGUMENT', 'a user or a password is empty');
      }
      this.#digests.set(user, digest(password));
    }
    if (this.#digests.size === 0) {
      throw new StepwellError('SW_INVALID_ARGUMENT', 'there is no password; leave the option out');
    }
  }

  /**
   * Parses the lines of a file: a user, a space and a password, or only a password, for clients
   * that name no user. Ignores empty lines and lines that begin with #.
   */
  static parse(text: string): Record<string, string> {
    const passwords: Record<string, string> = {};
    for (const line of text.split(/\r?\n/)) {
      if (line.trim() === '' || line.startsWith('#')) continue;
      const blank = line.indexOf(' ');
      const user = blank < 0 ? DEFAULT_USER : line.slice(0, blank);
      passwords[user] = line.slice(blank + 1);
    }
    return passwords;
  }

  has(user: string): boolean {
    return this.#digests.has(user);
  }

  /** Takes equally long for a user that does not exist. */
  allows(user: string, password: Uint8Array): boolean {
    const expected = this.#digests.get(user);
    const given = digest(password);
    return timingSafeEqual(given, expected ?? digest('')) && expected !== undefined;
  }
}

function digest(password: string | Uint8Array): Buffer {
  return createHash('sha256').update(password).digest();
}

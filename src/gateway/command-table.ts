import type { Command, CommandTable } from './command.ts';
import * as commands from './commands/index.ts';

/** A hash table of names, which are compared as bytes: making a string of one takes longer. */
class Table implements CommandTable {
  readonly all: readonly Command[];
  /** A power of two, at most half full: every search ends at an empty slot. */
  readonly #slots: (Command | undefined)[];
  readonly #nameLengthMax: number;

  constructor(commands: readonly Command[]) {
    this.all = commands;
    this.#slots = Array(2 ** Math.ceil(Math.log2(2 * commands.length))).fill(undefined);
    for (const command of commands) this.#slots[this.#slotOf(Buffer.from(command.name))] = command;
    this.#nameLengthMax = Math.max(...commands.map(({ name }) => name.length));
  }

  find(name: Buffer): Command | undefined {
    return name.length > this.#nameLengthMax ? undefined : this.#slots[this.#slotOf(name)];
  }

  /** Where the command of that name stands, or would stand. */
  #slotOf(name: Buffer): number {
    let hash = 0;
    // Upper and lower case of an ASCII letter differ in this one bit.
    for (let i = 0; i < name.length; i++) hash = (Math.imul(hash, 31) + (name[i] | 32)) | 0;
    const mask = this.#slots.length - 1;
    let slot = hash & mask;
    for (;;) {
      const command = this.#slots[slot];
      if (command === undefined || isNamed(command, name)) return slot;
      slot = (slot + 1) & mask;
    }
  }
}

function isNamed({ name }: Command, given: Buffer): boolean {
  if (given.length !== name.length) return false;
  for (let i = 0; i < name.length; i++) {
    const byte = given[i];
    const isUpper = byte >= 65 && byte <= 90;
    if ((isUpper ? byte | 32 : byte) !== name.charCodeAt(i)) return false;
  }
  return true;
}

/** Every command that the gateway serves. */
export const COMMANDS: CommandTable = new Table(Object.values(commands));

import { styleText } from 'node:util';

type Paint = (text: string) => string;

export interface Style {
  bold: Paint;
  dim: Paint;
  green: Paint;
  yellow: Paint;
  red: Paint;
}

/** Colours on terminals only; NO_COLOR (https://no-color.org) and TERM=dumb switch them off. */
export function styleFor(isTTY: boolean, env: NodeJS.ProcessEnv): Style {
  const colours = isTTY && !env.NO_COLOR && env.TERM !== 'dumb';
  const paint = (format: 'bold' | 'dim' | 'green' | 'yellow' | 'red'): Paint =>
    colours ? (text) => styleText(format, text, { validateStream: false }) : (text) => text;
  return {
    bold: paint('bold'),
    dim: paint('dim'),
    green: paint('green'),
    yellow: paint('yellow'),
    red: paint('red'),
  };
}

/**
 * Shows control characters as escapes. Names in a pool come from other processes, and could
 * otherwise control the reader's terminal.
 */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    return `\\u{${character.codePointAt(0)!.toString(16)}}`;
  });
}

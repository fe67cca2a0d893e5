/** Notations of bytes as text. */
export const BINARY_NOTATIONS = ['hex', 'base64'] as const;
export type BinaryNotation = (typeof BINARY_NOTATIONS)[number];

/** The bytes that a text stands for, or undefined: Node drops what it cannot decode. */
export function decodeStrictly(text: string, notation: BinaryNotation): Uint8Array | undefined {
  const bytes = Buffer.from(text, notation);
  const again = bytes.toString(notation);
  const same =
    notation === 'hex'
      ? again === text.toLowerCase()
      : again.replace(/=+$/, '') === text.replace(/=+$/, '');
  return same ? bytes : undefined;
}

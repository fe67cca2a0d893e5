// Buffer's own decoders: long-standing and used by Node itself, but not in @types/node.
interface Buffer {
  latin1Slice(start: number, end: number): string;
  utf8Slice(start: number, end: number): string;
}

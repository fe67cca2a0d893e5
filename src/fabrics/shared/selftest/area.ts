/** Where the tests' words stand, each on lines of its own. */
export const AT = { X: 0, Y: 256, added: 512, swapped: 768, written: 1024, torn: 4096 } as const;
export const AREA_BYTES = 64 * 1024;

/** Freezes plain data all the way down: objects and arrays without cycles, as JSON yields. */
export function freezeDeep(value: object): void {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) freezeDeep(inner);
  }
  Object.freeze(value);
}

/** Freezes plain data all the way down: objects and arrays without cycles, as JSON yields. */
export function freezeDeep(value: object): void {
  // A copy of an array's elements would cost as much as freezing it.
  const inside: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  for (let i = 0; i < inside.length; i++) {
    const inner = inside[i];
    if (typeof inner === 'object' && inner !== null) freezeDeep(inner);
  }
  Object.freeze(value);
}

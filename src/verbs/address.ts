/**
 * An address names a byte of the pool: a region number and an offset inside the region. Regions are
 * at most 2 GiB so that offsets stay small integers; each region owns a 2 GiB stride of the address
 * space whatever its real size.
 */
export type Address = number;

export const REGION_STRIDE = 2 ** 31;
// Private, so that the compiler knows their values: it loads and checks what a module exports.
const REGIONS_PER_BYTE = 2 ** -31;
const OFFSET_BITS = 2 ** 31 - 1;
/** A region that no pool has: addresses of 2^53 and more are words that were never addresses. */
const NO_REGION = 2 ** 22;
export const NULL_ADDRESS: Address = 0;

/** Memory is handed out in units of one cache line; packed pointers count units. */
export const UNIT_BYTES = 64;

export function addressOf(region: number, offset: number): Address {
  return region * REGION_STRIDE + offset;
}

/** The region of an address; of a damaged word one that is in no pool, never another one's. */
export function regionOf(address: Address): number {
  const region = address * REGIONS_PER_BYTE;
  return region < NO_REGION ? region | 0 : NO_REGION;
}

export function offsetOf(address: Address): number {
  return address & OFFSET_BITS;
}

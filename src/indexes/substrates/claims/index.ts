/** Parts of an index whose slots are claimed by CAS. The protocol: rival-claims.ts. */
export * from './abandoned-claims.ts';
export * from './change-slot.ts';
export * from './claim-slot.ts';
export type * from './claimed-slots.ts';
export * from './slot-candidates.ts';
export * from './slot-format.ts';
export * from './slot-operations.ts';
export * from './slot-request.ts';

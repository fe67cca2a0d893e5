import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { CODEC_STATE } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Access } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import { isLessFrequent, isLessRecent, LFU, LRU } from './experts.ts';

/** The record of a sample that one expert would evict. */
export class Candidate {
  readonly request: Request;
  readonly #index: Index;
  readonly #expert: number;
  readonly #goesFirst: (a: Access, b: Access) => boolean;
  experts = 0;
  isFound = false;
  isExpired = false;
  readonly #access: Access = { ticks: 0, uses: 0 };
  #version = 0;

  constructor(index: Index, expert: number, goesFirst: (a: Access, b: Access) => boolean) {
    this.#index = index;
    this.request = index.newRequest();
    this.#expert = expert;
    this.#goesFirst = goesFirst;
  }

  clear(): void {
    this.experts = this.#expert;
    this.isFound = false;
    this.isExpired = false;
  }

  /** Takes the met record if it is to go before what it has: an expired one before any other. */
  consider(met: Request, keyBytes: number, access: Access, isExpired: boolean): void {
    if (this.isExpired) return;
    if (this.isFound && !isExpired && !this.#goesFirst(access, this.#access)) return;
    this.isFound = true;
    this.isExpired = isExpired;
    this.#access.ticks = access.ticks;
    this.#access.uses = access.uses;
    this.#version = met.foundVersion;
    this.request.adoptKeyAt(met.outgoing, HEADER_BYTES, keyBytes, this.#index.hashSeed);
  }

  isSame({ request, isFound }: Candidate): boolean {
    const { h1, h4 } = this.request.hash;
    return isFound && request.hash.h1 === h1 && request.hash.h4 === h4;
  }

  /**
   * Removes the record, unless it was replaced or used since the sample. Whether it is gone by this
   * client.
   */
  *remove(): Operation<boolean> {
    const { request } = this;
    request.displaced = false;
    request.sparedIfUsedAfter = this.#access.ticks;
    yield* this.#index.remove(request, this.#version);
    return request.displaced;
  }
}

/** One sample of a store, and what each expert makes of it. */
export class Sampling {
  readonly met: Request;
  readonly lru: Candidate;
  readonly lfu: Candidate;
  readonly places: number[] = [];
  count = 0;
  #spared: Request | undefined;
  readonly #index: Index;
  /** Of the record that was met last. */
  readonly #access: Access = { ticks: 0, uses: 0 };
  /** Whether the second expert is asked at all. */
  readonly #countsUses: boolean;

  constructor(index: Index, countsUses: boolean) {
    this.#countsUses = countsUses;
    this.met = index.newRequest();
    this.#index = index;
    this.lru = new Candidate(index, LRU, isLessRecent);
    this.lfu = new Candidate(index, LFU, isLessFrequent);
  }

  /** A sample of so many places begins. */
  begin(places: number, chance: () => number, spared: Request | undefined): void {
    // At equal distances, so that in a small index no place is read twice and none left out.
    const first = chance();
    for (let i = 0; i < places; i++) this.places[i] = (first + i / places) % 1;
    this.places.length = places;
    this.lru.clear();
    this.lfu.clear();
    this.count = 0;
    this.#spared = spared;
  }

  readonly visit = (met: Request, keyBytes: number): void => {
    this.count++;
    if (this.#spared !== undefined && isSameKey(met, this.#spared)) return;
    const isExpired = this.#index.records.isExpired(met);
    // A helper's state goes only when it has expired: else two clients could hold one lease.
    if (met.foundCodec === CODEC_STATE && !isExpired) return;
    met.readAccess(this.#access);
    this.lru.consider(met, keyBytes, this.#access, isExpired);
    if (this.#countsUses) this.lfu.consider(met, keyBytes, this.#access, isExpired);
  };
}

function isSameKey(a: Request, b: Request): boolean {
  return a.hash.h1 === b.hash.h1 && a.hash.h4 === b.hash.h4 && a.keyBytes === b.keyBytes;
}

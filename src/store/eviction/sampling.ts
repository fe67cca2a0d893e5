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
  experts = 0;
  isFound = false;
  isExpired = false;
  #access: Access = { ticks: 0, uses: 0 };
  #version = 0;

  constructor(index: Index, expert: number) {
    this.#index = index;
    this.request = index.newRequest();
    this.#expert = expert;
  }

  clear(): void {
    this.experts = this.#expert;
    this.isFound = false;
    this.isExpired = false;
  }

  /**
   * Takes the met record if it is to go before what it has: an expired one before any other. A
   * helper's state goes only when it has expired: without it two clients could hold one lease.
   */
  consider(met: Request, keyBytes: number, goesFirst: (a: Access, b: Access) => boolean): void {
    if (this.isExpired) return;
    const { records, hashSeed } = this.#index;
    const isExpired = records.isExpired(met);
    if (met.foundCodec === CODEC_STATE && !isExpired) return;
    const access = records.accessOf(met);
    if (this.isFound && !isExpired && !goesFirst(access, this.#access)) return;
    this.isFound = true;
    this.isExpired = isExpired;
    this.#access = access;
    this.#version = met.foundVersion;
    this.request.adoptKeyAt(met.outgoing, HEADER_BYTES, keyBytes, hashSeed);
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
  /** Whether a sample beside a record met none because there is room. */
  hasRoom = false;
  #spared: Request | undefined;
  /** Whether the second expert is asked at all. */
  readonly #countsUses: boolean;

  constructor(index: Index, countsUses: boolean) {
    this.#countsUses = countsUses;
    this.met = index.newRequest();
    this.lru = new Candidate(index, LRU);
    this.lfu = new Candidate(index, LFU);
  }

  /** A sample of so many places begins. */
  begin(places: number, chance: () => number, spared: Request | undefined): void {
    this.places.length = 0;
    // At equal distances, so that in a small index no place is read twice and none left out.
    const first = chance();
    for (let i = 0; i < places; i++) this.places.push((first + i / places) % 1);
    this.lru.clear();
    this.lfu.clear();
    this.count = 0;
    this.hasRoom = false;
    this.#spared = spared;
  }

  readonly visit = (met: Request, keyBytes: number): void => {
    this.count++;
    if (this.#spared !== undefined && isSameKey(met, this.#spared)) return;
    this.lru.consider(met, keyBytes, isLessRecent);
    if (this.#countsUses) this.lfu.consider(met, keyBytes, isLessFrequent);
  };
}

function isSameKey(a: Request, b: Request): boolean {
  return a.hash.h1 === b.hash.h1 && a.hash.h4 === b.hash.h4 && a.keyBytes === b.keyBytes;
}

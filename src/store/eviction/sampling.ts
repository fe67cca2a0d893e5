import type { Index } from '../../indexes/contract.ts';
import type { Request } from '../../indexes/substrates/request.ts';
import { CODEC_STATE } from '../../records/codec.ts';
import { HEADER_BYTES } from '../../records/layout.ts';
import type { Access } from '../../records/times.ts';
import type { Operation } from '../../verbs/index.ts';
import { type Expert, isLessFrequent, isLessRecent, LFU, LRU } from './experts.ts';

/** A record that may be evicted, as it was when a sample visited it. */
export class Candidate {
  readonly request: Request;
  readonly #index: Index;
  /** The experts that chose it. */
  experts = 0;
  isFound = false;
  isExpired = false;
  isEvicted = false;
  readonly access: Access = { ticks: 0, uses: 0 };
  #version = 0;

  constructor(index: Index) {
    this.#index = index;
    this.request = index.newRequest();
  }

  note(met: Request, keyBytes: number, access: Access, isExpired: boolean): void {
    this.isFound = true;
    this.isExpired = isExpired;
    this.isEvicted = false;
    this.access.ticks = access.ticks;
    this.access.uses = access.uses;
    this.#version = met.found.version;
    this.request.adoptKeyAt(met.outgoing, HEADER_BYTES, keyBytes, this.#index.records.seed);
  }

  isOf({ hash }: Request): boolean {
    const { h1, h4 } = this.request.hash;
    return this.isFound && hash.h1 === h1 && hash.h4 === h4;
  }

  /**
   * Removes the record, unless it was replaced or used since the sample. Returns whether this
   * client has removed it.
   */
  *remove(): Operation<boolean> {
    const { request } = this;
    request.displaced = false;
    request.sparedIfUsedAfter = this.access.ticks;
    yield* this.#index.remove(request, this.#version);
    this.isEvicted = request.displaced;
    return this.isEvicted;
  }
}

/**
 * The two records that one expert would evict first. The runner-up competes in the next sample,
 * which makes that larger without another READ (Psounis and Prabhakar, "Efficient randomized
 * web-cache replacement schemes using samples from past eviction times", IEEE/ACM ToN 10(4), 2002).
 * It also compares records of one bucket with those of another. If a record was used or replaced
 * meanwhile, `Candidate.remove` spares it.
 */
class Ranking {
  first: Candidate;
  #second: Candidate;
  readonly #goesFirst: (a: Access, b: Access) => boolean;

  constructor(index: Index, goesFirst: (a: Access, b: Access) => boolean) {
    this.first = new Candidate(index);
    this.#second = new Candidate(index);
    this.#goesFirst = goesFirst;
  }

  clear(): void {
    this.first.isFound = false;
    this.#second.isFound = false;
  }

  /** Drops the candidate with this key, because it was evicted, is spared, or comes again. */
  forget(request: Request): void {
    if (this.#second.isOf(request)) this.#second.isFound = false;
    if (!this.first.isOf(request)) return;
    this.first.isFound = false;
    this.#swap();
  }

  consider(met: Request, keyBytes: number, access: Access, isExpired: boolean): void {
    this.forget(met);
    if (!this.#isBehind(this.first, access, isExpired)) {
      if (!this.#isBehind(this.#second, access, isExpired)) return;
      this.#second.note(met, keyBytes, access, isExpired);
      return;
    }
    this.#swap();
    this.first.note(met, keyBytes, access, isExpired);
  }

  /** Whether to evict the record before the candidate, if there is one. Expired ones go first. */
  #isBehind(candidate: Candidate, access: Access, isExpired: boolean): boolean {
    if (!candidate.isFound) return true;
    if (candidate.isExpired || isExpired) return !candidate.isExpired;
    return this.#goesFirst(access, candidate.access);
  }

  #swap(): void {
    const { first } = this;
    this.first = this.#second;
    this.#second = first;
  }
}

/** A sample of a store, ranked by each expert. */
export class Sampling {
  readonly met: Request;
  readonly places: number[] = [];
  count = 0;
  readonly #index: Index;
  readonly #lru: Ranking;
  readonly #lfu: Ranking;
  #spared: Request | undefined;
  #victim: Candidate | undefined;
  /**
   * The expert that decides the eviction under way. If its record is spared, the next sample asks
   * it again. Otherwise an expert whose records are often spared would decide fewer evictions than
   * its weight says, and the division by the weight (see `Experts`) would understate its regret.
   */
  #expert: Expert | undefined;
  /** Access of the last record met. */
  readonly #access: Access = { ticks: 0, uses: 0 };
  /** Whether LFU ranks the records, too. */
  readonly #countsUses: boolean;

  constructor(index: Index, countsUses: boolean) {
    this.#index = index;
    this.#countsUses = countsUses;
    this.met = index.newRequest();
    this.#lru = new Ranking(index, isLessRecent);
    this.#lfu = new Ranking(index, isLessFrequent);
  }

  /** Begins a sample of this many places, in which the last sample's runners-up take part. */
  begin(places: number, chance: () => number, spared: Request | undefined): void {
    // At equal distances, so that it reads every place of a small index, and none twice.
    const first = chance();
    for (let i = 0; i < places; i++) this.places[i] = (first + i / places) % 1;
    this.places.length = places;
    if (this.#victim !== undefined) this.#forget(this.#victim.request);
    if (this.#victim?.isEvicted) this.#expert = undefined;
    if (spared !== undefined) this.#forget(spared);
    this.#victim = undefined;
    this.#spared = spared;
    this.count = 0;
  }

  /** As `begin`, but only records that this sample meets take part. */
  beginAlone(chance: () => number, spared: Request): void {
    this.#lru.clear();
    this.#lfu.clear();
    this.begin(1, chance, spared);
  }

  /** Evicts a helper's state only once it has expired: else two clients could hold one lease. */
  readonly visit = (met: Request, keyBytes: number): void => {
    this.count++;
    if (this.#spared !== undefined && isSameKey(met, this.#spared)) return;
    const isExpired = this.#index.records.isExpired(met);
    if (isState(met) && !isExpired) return;
    met.readAccess(this.#access);
    this.#lru.consider(met, keyBytes, this.#access, isExpired);
    if (this.#countsUses) this.#lfu.consider(met, keyBytes, this.#access, isExpired);
  };

  /**
   * The victim of the expert that already decides this eviction, or else of the one that `choose`
   * draws. An expired record goes first. Undefined when there is no candidate.
   */
  victimOf(choose: () => Expert): Candidate | undefined {
    this.#expert ??= choose();
    const expert = this.#expert;
    const lru = this.#lru.first;
    const lfu = this.#lfu.first;
    const victim = expert === LRU || (lru.isFound && lru.isExpired) ? lru : lfu;
    if (!victim.isFound) return undefined;
    const isOfBoth = lfu.isFound && lru.isOf(lfu.request);
    victim.experts = isOfBoth ? LRU | LFU : expert;
    this.#victim = victim;
    return victim;
  }

  #forget(request: Request): void {
    this.#lru.forget(request);
    this.#lfu.forget(request);
  }
}

/** Whether the found record is a helper's: a lease, a limiter. */
export function isState({ found }: Request): boolean {
  return found.codec === CODEC_STATE;
}

export function isSameKey(a: Request, b: Request): boolean {
  return a.hash.h1 === b.hash.h1 && a.hash.h4 === b.hash.h4 && a.keyBytes === b.keyBytes;
}

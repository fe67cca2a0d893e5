import { closeSync, fstatSync, ftruncateSync, openSync } from 'node:fs';
import type { Mapping } from './closed-ranges.ts';
import { FileLocks } from './file-locks.ts';
import { hasHugePages } from './huge-pages.ts';
import { loadLibc } from './libc.ts';
import type { Libc } from './mapping.ts';
import { fileSystemRefused, remedyFor } from './refused-memory.ts';
import { Region, type RegionSource } from './region.ts';

/** `shm:` and `file:`: one sparse file, mapped region by region. */
export class MappedSource implements RegionSource {
  readonly path: string;
  readonly isInFile = true;
  readonly locks: FileLocks;
  readonly #fd: number;
  readonly #regionBytes: number;
  readonly #libc: Libc;
  /** By region; a client maps only the regions that it has met. */
  readonly #mappings: Mapping[] = [];
  readonly #regions: Region[] = [];
  #remedy: string | undefined;

  /** Owns the open file from now on; `reopen` opens it once more, for locks. */
  constructor(path: string, fd: number, regionBytes: number, reopen = () => openSync(path, 'r+')) {
    this.path = path;
    this.#fd = fd;
    this.#regionBytes = regionBytes;
    this.#libc = loadLibc();
    this.locks = new FileLocks(this.#libc.byteLocks, fd, reopen);
  }

  /** Gives a file that no other client knows yet its first region. */
  begin(): void {
    if (this.#libc.isSparse) ftruncateSync(this.#fd, this.#regionBytes);
    else this.extend(1);
  }

  /** As it was when the pool was first full: stores that evict come here with each write. */
  remedy(): string {
    this.#remedy ??= remedyFor(this.path, this.#regionBytes);
    return this.#remedy;
  }

  map(index: number): Region | undefined {
    if (this.#regions[index]) return this.#regions[index];
    const start = index * this.#regionBytes;
    if (start < 0) return undefined;
    // Beyond the end of the file a mapping would be a bus error at the first touch.
    if (start + this.#regionBytes > fstatSync(this.#fd).size) return undefined;
    const mapping = this.#libc.mapShared(this.#fd, start, this.#regionBytes);
    // The buffer must stay reachable as long as any view of it is used.
    this.#mappings[index] = mapping;
    this.#regions[index] = new Region(mapping.memory);
    return this.#regions[index];
  }

  extend(count: number): void {
    const bytes = count * this.#regionBytes;
    if (fstatSync(this.#fd).size >= bytes) return;
    this.#check(this.#libc.lengthen(this.#fd, bytes));
  }

  reserve(region: number, offset: number, bytes: number): void {
    this.map(region);
    this.#check(this.#libc.populate(this.#mappings[region], offset, bytes));
  }

  #check(errno: number): void {
    if (errno !== 0) throw fileSystemRefused(this.path, errno);
  }

  hugePages(): boolean {
    const starts = new Set(this.#mappings.filter(Boolean).map(({ address }) => Number(address)));
    return hasHugePages(({ from }) => starts.has(from));
  }

  /** The locks say that the memory is in use, so they go last. */
  close(): void {
    for (const mapping of this.#mappings.splice(0)) if (mapping) this.#libc.release(mapping);
    this.locks.close();
    closeSync(this.#fd);
  }
}

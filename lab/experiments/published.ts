/**
 * SepHash's figures (Min et al., PVLDB 17(5)) for its RACE port after 100 million inserts of
 * 16-byte keys and 32-byte values: Table 1 (one client) and Table 2. Buckets have 8 entries.
 */
export const RACE_AT_100M = {
  records: 100_000_000,
  splits: { what: 'splits', published: '12.9e4', source: 'Table 1, 1 client' },
  reads: { what: 'bucket READs of a search', published: '2.0', source: 'Table 1' },
  retries: { what: 'tries of an insert', published: '1.00', source: 'Table 1, 1 client' },
  resize: {
    what: 'resize share of insert time',
    published: '50.8 %',
    source: 'Table 1, 1 client',
  },
  slots: { what: 'slots (entries)', published: '1.97e8', source: 'Table 2' },
  bucketMetadata: { what: 'bucket headers', published: '188.56 MB', source: 'Table 2' },
  directory: { what: 'directory', published: '6.00 MB', source: 'Table 2' },
  total: { what: 'index without records', published: '1.66 GB', source: 'Table 2' },
  depth: { what: 'directory depth', published: '18', source: 'Table 2' },
  loadFactor: {
    what: 'load factor',
    published: '50.8 %',
    source: 'Table 2: 1e8 / 1.97e8',
  },
} as const;

/** The shape of that RACE port: 8 entries a bucket; 64 groups and 16 subtables at first. */
export const PAPER_SHAPE = { associativity: 8, groups: 64, initialDepth: 4 } as const;

import { FIRST_LEAF, HEAD_BYTES, writeBytes } from '../../pool/intents/intent.ts';
import { type Scratch, setWord } from '../../verbs/index.ts';
import { addSequence, addVacancy, writtenBytes } from '../substrates/leaf/change-leaf.ts';
import { isEmpty, itemHigh } from '../substrates/leaf/entry.ts';
import {
  BOUNDS_AT,
  HEADER_BYTES,
  ITEM_AT,
  type LeafGeometry,
  SUM_AT,
  VACANCY_AT,
} from '../substrates/leaf/layout.ts';
import { IMAGE_AT } from '../substrates/leaf/leaf-request.ts';
import { addReplicas } from '../substrates/leaf/split-leaf.ts';
import type { ChimeRequest } from './request.ts';
import type { ChimeTree } from './tree.ts';

const BOUNDS_BYTES = HEADER_BYTES - BOUNDS_AT;
/** The sequence twice, the vacancy and the owner. */
const WORDS_WRITTEN = 4;

/** Most bytes of an intent with the release and an `addRewrite` of `changed` entries. */
export function rewriteBytes({ entryBytes, replicas }: LeafGeometry, changed: number): number {
  const words = (WORDS_WRITTEN + replicas) * writeBytes(8) + writeBytes(BOUNDS_BYTES);
  return HEAD_BYTES + words + changed * writeBytes(entryBytes);
}

/** How many entries of the request's image differ from `before`. */
export function countChanged(tree: ChimeTree, { words }: ChimeRequest, before: Int32Array): number {
  let count = 0;
  for (let entry = 0; entry < tree.geometry.shape.span; entry++) {
    if (isChanged(tree, words, before, tree.geometry.entryAt(entry))) count++;
  }
  return count;
}

function isChanged(
  { geometry }: ChimeTree,
  { i32 }: Scratch,
  before: Int32Array,
  there: number,
): boolean {
  const from = (IMAGE_AT + there) >> 2;
  for (let i = 0; i < geometry.entryBytes >> 2; i++) {
    if (i32[from + i] !== before[from + i]) return true;
  }
  return false;
}

/**
 * Adds the WRITEs that turn a locked leaf into the request's image, with new bounds: the sequence
 * odd, entries, bounds and replicas, vacancy, the sequence even. `before`: the words that were
 * read.
 */
export function addRewrite(
  tree: ChimeTree,
  request: ChimeRequest,
  before: Int32Array,
  writeBounds: (memory: Scratch, at: number) => void,
): void {
  const { intent, leaf, words } = request;
  addSequence(request, 1);
  for (let entry = 0; entry < tree.geometry.shape.span; entry++) {
    addChanged(tree, request, before, tree.geometry.entryAt(entry));
  }
  const at = intent.add(FIRST_LEAF, leaf + BOUNDS_AT, BOUNDS_BYTES);
  writeBounds(intent.memory, at);
  addReplicas(tree, request, at);
  noteVacancy(tree, words);
  addVacancy(request);
  addSequence(request, 2);
}

/** Adds an entry if it has changed; of an empty one, only the words up to its item. */
function addChanged(
  tree: ChimeTree,
  { intent, leaf, words }: ChimeRequest,
  before: Int32Array,
  there: number,
): void {
  if (!isChanged(tree, words, before, there)) return;
  const { i32 } = words;
  const from = (IMAGE_AT + there) >> 2;
  const item = itemHigh(words, IMAGE_AT + there);
  const bytes = isEmpty(item) ? ITEM_AT + 8 : writtenBytes(tree, item);
  const at = intent.add(FIRST_LEAF, leaf + there + SUM_AT, bytes) >> 2;
  for (let i = 0; i < bytes >> 2; i++) intent.memory.i32[at + i] = i32[from + i];
}

/** Sets the vacancy of an image by its entries. */
export function noteVacancy({ geometry }: ChimeTree, words: Scratch): void {
  setWord(words, IMAGE_AT + VACANCY_AT, 0, 0);
  for (let entry = 0; entry < geometry.shape.span; entry++) {
    if (!isEmpty(itemHigh(words, IMAGE_AT + geometry.entryAt(entry)))) continue;
    const bit = geometry.vacancyBit(entry);
    words.i32[(IMAGE_AT + VACANCY_AT + 4 * (bit >>> 5)) >> 2] |= 1 << (bit & 31);
  }
}

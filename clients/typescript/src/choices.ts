/** Which of the values that a device holds are sent in a round: section 5 of docs/protocol/answers.md. */

import type { Bytes } from "./bytes.js";
import { encodeBucket } from "./plaintext.js";
import type { Bucket, Element, Part, Question } from "./questions.js";

/** Random numbers that choose among lists. A number chooses one of n by its remainder, with a bias below n ÷ 2^128. */
export interface Choices {
  /** Where the elements that are looked at begin, one for each attribute that is read. */
  readonly places: readonly bigint[];
  /** One for each part of the question in a round of one contribution, otherwise one for each contribution. */
  readonly picks: readonly bigint[];
  /** Uniform in [0, 1). */
  readonly draw: number;
}

const MOST_ELEMENTS = 1000;

const remainder = (number: bigint, n: number): number => Number(number % BigInt(n));

/** 1,000 elements in a row from a random place on, as if the list were a ring; all of a list that has no more. */
function window(list: readonly unknown[], place: bigint): readonly unknown[] {
  const n = list.length;
  if (n <= MOST_ELEMENTS) return list;
  const first = remainder(place, n);
  return Array.from({ length: MOST_ELEMENTS }, (_, step) => list[(first + step) % n]);
}

/**
 * The elements of each part that a filter leaves; null where a condition does not hold.
 *
 * `values` has one value for each of the question's attributes. One that is no list is a list of one.
 */
export function candidates(
  question: Question, values: readonly unknown[], several: boolean, places: readonly bigint[],
): (readonly unknown[])[] | null {
  const { attributes, conditions, parts } = question;
  const isCut = several || conditions.length > 0;
  const lists = values.map((value, i) =>
    !Array.isArray(value) ? [value] : isCut ? window(value, places[i]!) : (value as unknown[]),
  );
  let all = true;
  for (const condition of conditions) {
    const i = attributes.indexOf(condition.column);
    lists[i] = lists[i]!.filter(condition.holds);
    all = all && lists[i].length > 0;
  }
  return all ? lists.slice(0, parts.length) : null;
}

/** The distinct elements of one part that would fit as the only element of an array. */
export function distinct(part: Part, list: readonly unknown[], size: number): Element[] {
  const found = new Set<Element>();
  for (const value of list) {
    const element = part.element(value, 0);
    if (element !== null && encodeBucket([element], size)) found.add(element);
  }
  return [...found];
}

/**
 * As many of `total` things, by their numbers, as there are picks, in a random order; null for what is missing.
 *
 * These are the first steps of a Fisher–Yates shuffle, of which only what has moved is kept. Where there are too few
 * things, places without one are shuffled among them, so that the order does not say how many there are.
 */
export function chosen(total: bigint, picks: readonly bigint[]): (bigint | null)[] {
  const size = total > BigInt(picks.length) ? total : BigInt(picks.length);
  const moved = new Map<bigint, bigint>();
  return picks.map((pick, index) => {
    const step = BigInt(index);
    const other = step + (pick % (size - step));
    const taken = moved.get(other) ?? other;
    moved.set(other, moved.get(step) ?? step);
    return taken < total ? taken : null;
  });
}

/** The combination of a number, of all that have one element of each list; the first list changes quickest. */
function combination(lists: readonly Element[][], number: bigint): Bucket {
  return lists.map((list) => {
    const element = list[remainder(number, list.length)]!;
    number /= BigInt(list.length);
    return element;
  });
}

/**
 * The padded plaintext of each contribution; null where a decoy is to be sent.
 *
 * Guarantee: exactly `contributions` of them, whatever is held; no two of several are the same bucket.
 */
export function plaintexts(
  question: Question, values: readonly unknown[], size: number, contributions: number, choices: Choices,
): (Bytes | null)[] {
  const { parts } = question;
  const { places, picks, draw } = choices;
  const several = contributions > 1;
  const lists = candidates(question, values, several, places);
  if (!lists) return Array<null>(contributions).fill(null);
  if (!several) {
    const bucket = parts.map((part, i) => {
      const list = lists[i]!;
      return list.length ? part.element(list[remainder(picks[i]!, list.length)], draw) : null;
    });
    return [bucket.includes(null) ? null : encodeBucket(bucket as Element[], size)];
  }
  const elements = parts.map((part, i) => distinct(part, lists[i]!, size));
  const total = elements.reduce((product, list) => product * BigInt(list.length), 1n);
  return chosen(total, picks).map((number) =>
    number === null ? null : encodeBucket(combination(elements, number), size),
  );
}

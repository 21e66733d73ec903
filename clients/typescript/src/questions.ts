/** Questions: how each kind is read, and how it maps one value to its bucket. Section 3 of docs/protocol/answers.md. */

import { readConditions, type Condition } from "./conditions.js";
import { dayOf, firstDay, type Every } from "./dates.js";
import { asDouble, countUpTo } from "./numbers.js";
import { hasExactly, isArrayOf, isNumber, isObject, isText, isWhole, type Fields } from "./objects.js";
import { normalText, valueText } from "./text.js";

/** One element of a bucket. */
export type Element = string | number | boolean;
/** What is counted: a JSON array with one element for each part of the question. */
export type Bucket = readonly Element[];

/** A question of one attribute. */
export interface Part {
  readonly column: string;
  /** Whether it needs the draw. */
  readonly randomised: boolean;
  /** The element of a single value, or null. Never throws because of a value. */
  readonly element: (value: unknown, draw: number) => Element | null;
}

/** A question that was read. */
export interface Question {
  readonly parts: readonly Part[];
  readonly conditions: readonly Condition[];
  /** The attributes that are read: those of the parts, then those that only a condition reads. */
  readonly attributes: readonly string[];
  readonly randomised: boolean;
}

type Mapping = (value: unknown, draw: number) => Element | null;

/** The mark of the end of a text. */
const END = "\0";
const MOST_CELLS = 2 ** 40;
const LONGEST_PREFIX = 10_000;

const isName = (value: unknown): value is string => isText(value) && value !== "";
const isRising = (numbers: number[]): boolean =>
  numbers.length > 1 && numbers.every((number, i) => i === 0 || numbers[i - 1]! < number);

/** A mapping of numbers; what is no number has no bucket. */
const ofNumber =
  (map: (x: number, draw: number) => Element | null): Mapping =>
  (value, draw) => {
    const x = asDouble(value);
    return x === null ? null : map(x, draw);
  };

/** The fields of each kind with one attribute, and its mapping; null where a field is not what it may be. */
const KINDS: Readonly<Record<string, readonly [fields: string, read: (raw: Fields) => Mapping | null]>> = {
  bins: [
    "edges",
    ({ edges }) =>
      isArrayOf(edges, isNumber) && isRising(edges)
        ? ofNumber((x) => (x < edges.at(-1)! ? (edges[countUpTo(edges, x) - 1] ?? null) : null))
        : null,
  ],
  cells: [
    "lower upper cells",
    ({ lower, upper, cells }) =>
      isNumber(lower) && isNumber(upper) && lower < upper && isWhole(cells, 1, MOST_CELLS) &&
      isNumber((upper - lower) * cells)
        ? ofNumber((x) => {
            const inside = Math.min(Math.max(x, lower), upper);
            return Math.min(Math.floor(((inside - lower) * cells) / (upper - lower)), cells - 1);
          })
        : null,
  ],
  below: ["split", ({ split }) => (isNumber(split) ? ofNumber((x) => x < split) : null)],
  points: [
    "points",
    ({ points }) =>
      isArrayOf(points, isNumber) && points.length <= 1000 && isRising(points) && isNumber(points.at(-1)! - points[0]!)
        ? ofNumber((x, draw) => {
            const inside = Math.min(Math.max(x, points[0]!), points.at(-1)!);
            const above = Math.min(countUpTo(points, inside), points.length - 1);
            const [low, high] = [points[above - 1]!, points[above]!];
            return draw < (inside - low) / (high - low) ? high : low;
          })
        : null,
  ],
  dates: [
    "every",
    ({ every }) =>
      ["day", "week", "month"].includes(every as string)
        ? (value) => {
            const day = dayOf(value);
            return day === null ? null : firstDay(day, every as Every);
          }
        : null,
  ],
  prefixes: ["length known parents", readPrefixes],
  recounted_prefixes: ["length known parents texts", readPrefixes],
};

function readPrefixes({ length, known, parents, texts = [] }: Fields): Mapping | null {
  if (!(isWhole(length, 1, LONGEST_PREFIX) && isWhole(known, 0, length - 1) && isArrayOf(parents, isText))) return null;
  const isRecounted = (text: unknown): text is string =>
    isText(text) && normalText(text) === text && [...text].length < known;
  if (!isArrayOf(texts, isRecounted)) return null;
  const [extended, whole] = [new Set(parents), new Set(texts)];
  return (value) => {
    const text = typeof value === "string" ? normalText(value) : null;
    if (text === null) return null;
    if (whole.has(text)) return text + END;
    const first = [];
    for (const character of text + END) if (first.push(character) === length) break;
    // A text has no END of its own: one among the known characters means that the text is shorter than them.
    if (known > 0 && (first.length < known || first[known - 1] === END)) return null;
    return known === 0 || extended.has(first.slice(0, known).join("")) ? first.join("") : null;
  };
}

/** The parts of a question without a filter, or null. */
function readParts(raw: unknown): Part[] | null {
  const kind = isObject(raw) ? raw.kind : null;
  if (kind === "values" && hasExactly(raw, "kind columns")) {
    const { columns } = raw;
    if (!(isArrayOf(columns, isName) && columns.length > 0)) return null;
    return columns.map((column) => ({ column, randomised: false, element: valueText }));
  }
  if (kind === "joint" && hasExactly(raw, "kind parts") && Array.isArray(raw.parts) && raw.parts.length > 1) {
    const parts = [];
    for (const each of raw.parts as unknown[]) {
      const simple = isObject(each) && ["values", "bins", "dates", "cells", "points"].includes(each.kind as string);
      const read = simple ? readParts(each) : null;
      if (read?.length !== 1) return null;
      parts.push(read[0]!);
    }
    return parts;
  }
  const [fields, read] = typeof kind === "string" && Object.hasOwn(KINDS, kind) ? KINDS[kind]! : [];
  if (!(read && hasExactly(raw, `kind column ${fields}`) && isName(raw.column))) return null;
  const element = read(raw);
  return element && [{ column: raw.column, randomised: kind === "points", element }];
}

/**
 * Reads a question as it is sent to a device.
 *
 * @returns null for another kind, for missing, unknown or wrong fields.
 */
export function readQuestion(raw: unknown): Question | null {
  const isFiltered = hasExactly(raw, "kind question where") && raw.kind === "filtered";
  const parts = readParts(isFiltered ? raw.question : raw);
  const conditions = isFiltered ? readConditions(raw.where) : [];
  if (!parts || !conditions) return null;
  const columns = parts.map((part) => part.column);
  const randomised = parts.filter((part) => part.randomised).length;
  if (new Set(columns).size < columns.length || randomised > 1) return null;
  const attributes = [...new Set([...columns, ...conditions.map((condition) => condition.column)])];
  return { parts, conditions, attributes, randomised: randomised > 0 };
}

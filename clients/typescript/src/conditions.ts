/** Filters: section 4 of docs/protocol/answers.md. */

import { dayOf, isDay } from "./dates.js";
import { asDouble } from "./numbers.js";
import { hasExactly, isArrayOf, isNumber, isText } from "./objects.js";
import { normalText, valueText } from "./text.js";

/** One condition on one attribute. */
export interface Condition {
  readonly column: string;
  /** Whether a single value, not a list, satisfies it. Never throws because of a value. */
  readonly holds: (value: unknown) => boolean;
}

type End = string | number | bigint | null;

const DIGITS = /^-?[1-9][0-9]{15,18}$/;
const isOf64Bits = (whole: bigint): boolean => BigInt.asIntN(64, whole) === whole;

/** from ≤ value < below. Days compare as texts; whole numbers and doubles compare exactly. */
const isWithin = (value: Exclude<End, null>, from: End, below: End): boolean =>
  (from === null || from <= value) && (below === null || value < below);

/** An end of a range: a day, a double, a whole number that no double is, or null; undefined for anything else. */
function readEnd(raw: unknown): End | undefined {
  if (raw === null || isNumber(raw) || isDay(raw)) return raw;
  if (typeof raw !== "string" || !DIGITS.test(raw)) return undefined;
  const whole = BigInt(raw);
  return isOf64Bits(whole) && BigInt(Number(whole)) !== whole ? whole : undefined;
}

const double = (end: End): End => (typeof end === "bigint" ? Number(end) : end);

function readHolds(raw: unknown): Condition["holds"] | null {
  if (hasExactly(raw, "column among")) {
    const texts = isArrayOf(raw.among, isText) ? raw.among.map(normalText) : [];
    if (texts.length === 0 || texts.includes(null)) return null;
    const among = new Set<string | null>(texts);
    return (value) => {
      const text = valueText(value);
      return text !== null && among.has(text);
    };
  }
  if (!hasExactly(raw, "column from below")) return null;
  const [from, below] = [readEnd(raw.from), readEnd(raw.below)];
  if (from === undefined || below === undefined) return null;
  const first = from ?? below;
  if (first === null) return null;
  const ofDays = typeof first === "string";
  if (from !== null && below !== null && ((typeof below === "string") !== ofDays || !(from < below))) return null;
  if (ofDays) {
    return (value) => {
      const day = dayOf(value);
      return day !== null && isWithin(day, from, below);
    };
  }
  return (value) => {
    if (typeof value === "bigint" && isOf64Bits(value)) return isWithin(value, from, below);
    const x = asDouble(value);
    return x !== null && isWithin(x, double(from), double(below));
  };
}

/** The conditions of a filter, at least one and one an attribute; null for anything else. */
export function readConditions(raw: unknown): Condition[] | null {
  if (!Array.isArray(raw) || raw.length === 0) return null;
  const conditions: Condition[] = [];
  for (const each of raw as unknown[]) {
    const holds = readHolds(each);
    const column = holds && (each as { column: unknown }).column;
    if (!holds || !isText(column) || column === "") return null;
    conditions.push({ column, holds });
  }
  return new Set(conditions.map((condition) => condition.column)).size < raw.length ? null : conditions;
}

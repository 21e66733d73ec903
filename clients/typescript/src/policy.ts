/** What a device agrees to: docs/protocol/policy.md. All arithmetic is that of whole numbers. */

import { InvalidSetting } from "./errors.js";
import { hasExactly, isArrayOf, isNumber, isText, isWhole, type Fields } from "./objects.js";
import { ONE, readRound, type Round, type Terms } from "./rounds.js";

/** One row of a policy's table. */
export interface Row {
  readonly threshold: number;
  readonly limits: readonly number[];
  readonly rates: readonly number[];
  readonly costs: readonly number[];
}

/** What a policy's bounds mean for each threshold, as whole numbers. */
export interface Table {
  /** For which `max_epsilon`, `max_delta`, `period_epsilon` and `period_delta` it was made. */
  readonly bounds: readonly number[];
  readonly rounds: readonly number[];
  readonly rows: readonly Row[];
}

/** A compiled policy, as `thresher policy compile` writes it. */
export interface Policy {
  readonly version: 1;
  readonly max_epsilon: number;
  readonly max_delta: number;
  readonly period_epsilon: number;
  readonly period_delta: number;
  readonly period_days: number;
  readonly min_threshold: number;
  readonly max_contributions: number;
  readonly hide_from_contact_list: boolean;
  readonly coins: "any" | "aggregator";
  readonly attributes: readonly string[] | null;
  readonly filters: readonly string[] | null;
  readonly pinned_key: string | null;
  readonly table: Table;
}

export type Reason =
  | "unreadable" | "deadline" | "key" | "attribute" | "filter" | "coins" | "threshold" | "contributions" | "limit"
  | "terms" | "answered" | "budget";

/** What a query was charged for, and which of its rounds were answered. */
export interface Charge {
  readonly terms: Terms;
  readonly indexes: readonly number[];
  /** Seconds since 1970. */
  readonly time: number;
}

const ROOM = 1_000_000_000;
const TOO_MUCH = ROOM + 1;
const LATEST = 34_560_000;
/** The largest number of rounds or threshold of a table, and the largest epsilon of a period. */
const LARGEST = 1_000_000;
/** Rows of a table, and its rounds, and rates of a row, at most. */
const MOST = 4096;

/** The settings of the default policy: a member that a file leaves out is as here, and no table is none. */
const DEFAULTS = {
  version: 1, max_epsilon: 4, max_delta: 1e-5, period_epsilon: 20, period_delta: 1e-4, period_days: 30,
  min_threshold: 5, max_contributions: 10, hide_from_contact_list: true, coins: "any",
  attributes: null, filters: null, pinned_key: null, table: null,
};

const isWholes = (raw: unknown, least: number, most: number): raw is number[] =>
  isArrayOf(raw, (each): each is number => isWhole(each, least, most)) && raw.length <= MOST;

const isRising = (numbers: readonly number[], least = 1): boolean =>
  numbers.every((each, i) => i === 0 || each - numbers[i - 1]! >= least);

function isRow(raw: unknown, columns: number): boolean {
  if (!hasExactly(raw, "threshold limits rates costs")) return false;
  const { threshold, limits, rates, costs } = raw;
  return (
    isWhole(threshold, 1, LARGEST) && isWholes(limits, 0, ONE - 1) && limits.length === columns &&
    isWholes(rates, 1, ONE) && isRising(rates) && isWholes(costs, 1, TOO_MUCH) && costs.length === rates.length &&
    isRising(costs, 0)
  );
}

function isTable(raw: unknown, policy: Fields): boolean {
  if (!hasExactly(raw, "bounds rounds rows")) return false;
  const { bounds, rounds, rows } = raw;
  const { max_epsilon, max_delta, period_epsilon, period_delta } = policy;
  return (
    JSON.stringify(bounds) === JSON.stringify([max_epsilon, max_delta, period_epsilon, period_delta]) &&
    isWholes(rounds, 1, LARGEST) && rounds.length > 0 && isRising(rounds) && Array.isArray(rows) &&
    rows.length > 0 && rows.length <= MOST && rows.every((row) => isRow(row, rounds.length)) &&
    isRising((rows as Row[]).map((row) => row.threshold))
  );
}

const isBetween = (most: number) => (raw: unknown): boolean => isNumber(raw) && raw > 0 && raw <= most;
const isUpTo = (most: number) => (raw: unknown): boolean => isWhole(raw, 1, most);
const isDelta = isBetween(1 - 2 ** -53);
const isNames = (raw: unknown): boolean => raw === null || isArrayOf(raw, isText);

/** All members, and what each must be. */
const CHECKS: Readonly<Record<string, (raw: unknown, policy: Fields) => boolean>> = {
  version: (raw) => raw === 1,
  max_epsilon: isBetween(100),
  max_delta: isDelta,
  period_epsilon: isBetween(LARGEST),
  period_delta: isDelta,
  period_days: isBetween(36_500),
  min_threshold: isUpTo(10 * LARGEST),
  max_contributions: isUpTo(1000),
  hide_from_contact_list: (raw) => typeof raw === "boolean",
  coins: (raw) => raw === "any" || raw === "aggregator",
  attributes: isNames,
  filters: isNames,
  pinned_key: (raw) => raw === null || (typeof raw === "string" && /^[0-9a-f]{64}$/i.test(raw)),
  table: isTable,
};

/**
 * Checks a policy that was read from a file.
 *
 * A member that is not there, but for the table, is as in the default policy.
 *
 * @throws InvalidSetting that names the member which is wrong. An unknown member is an error too: a
 *   misspelled one would not protect anybody.
 */
export function readPolicy(raw: unknown): Policy {
  const fields: Fields = { ...DEFAULTS, ...(raw as Fields) };
  for (const name of Object.keys(fields)) {
    if (!(Object.hasOwn(CHECKS, name) && CHECKS[name]!(fields[name], fields))) {
      throw new InvalidSetting(
        `policy.${name}`, "is unknown or wrong", "Make the policy with: thresher policy compile.",
      );
    }
  }
  return fields as unknown as Policy;
}

/** The rate of the coins that the device relies on, in units of 2^-32, rounded up. */
export function protectingRate({ coins, hide_from_contact_list }: Policy, terms: Terms): number {
  const { contactRate, deviceRate, aggregatorRate } = terms;
  if (coins === "aggregator") return aggregatorRate;
  if (hide_from_contact_list) return Math.min(deviceRate, aggregatorRate); // one of them is 2^32
  const product = BigInt(contactRate) * BigInt(deviceRate) * BigInt(aggregatorRate);
  return Number((product + (1n << 64n) - 1n) >> 64n);
}

const rowOf = ({ table }: Policy, { threshold }: Terms): Row | undefined =>
  table.rows.filter((row) => row.threshold <= threshold).at(-1);

export function limit(policy: Policy, terms: Terms): number {
  const column = policy.table.rounds.findIndex((rounds) => rounds >= terms.rounds * terms.contributions);
  return rowOf(policy, terms)?.limits[column] ?? 0;
}

/** What a query costs over all its rounds, in billionths of what a period has room for. */
export function cost(policy: Policy, terms: Terms): number {
  const row = rowOf(policy, terms);
  const rate = protectingRate(policy, terms);
  const each = row?.costs[row.rates.findIndex((known) => known >= rate)] ?? TOO_MUCH;
  return Math.min(terms.rounds * terms.contributions * each, TOO_MUCH);
}

const isSame = (a: Terms, b: Terms): boolean =>
  (Object.keys(b) as (keyof Terms)[]).every((name) => a[name] === b[name]);

/**
 * Why a readable round is not answered, or null if it is.
 *
 * Guarantee: it does not depend on what the device holds.
 *
 * @param charge what its query was charged, if it was.
 * @param others what all other queries were charged.
 * @param now seconds since 1970.
 */
export function refusal(
  policy: Policy, round: Round, charge: Charge | undefined, others: readonly Charge[], now: number,
): Reason | null {
  const { attributes, filters, pinned_key } = policy;
  const { terms } = round;
  const { parts, conditions } = round.question;
  const isIn = (names: readonly string[] | null) => (each: { column: string }) => !names || names.includes(each.column);
  if (round.deadline - now > LATEST) return "deadline";
  if (pinned_key && pinned_key.toLowerCase() !== round.publicKey) return "key";
  if (!parts.every(isIn(attributes))) return "attribute";
  if (!conditions.every(isIn(filters ?? attributes))) return "filter";
  if (policy.coins === "aggregator" && terms.aggregatorRate === ONE) return "coins";
  if (terms.threshold < policy.min_threshold) return "threshold";
  if (terms.contributions > policy.max_contributions) return "contributions";
  if (protectingRate(policy, terms) > limit(policy, terms)) return "limit";
  if (charge && !isSame(charge.terms, terms)) return "terms";
  if (charge?.indexes.includes(round.index)) return "answered";
  const spent = others.reduce((sum, other) => sum + cost(policy, other.terms), 0);
  return others.length > 0 && spent + cost(policy, terms) > ROOM ? "budget" : null;
}

/** The name under which a query is charged. */
export const queryName = ({ fleet, query }: Pick<Round, "fleet" | "query">): string => `${fleet}/${query}`;

/**
 * Decides a round from its configuration as it came: why it is not answered, or null if it is.
 *
 * @param charges what was charged and still counts, by `fleet/query`.
 * @param now seconds since 1970.
 */
export function decide(
  policy: Policy, text: string, charges: ReadonlyMap<string, Charge>, now: number,
): Reason | null {
  const round = readRound(text)?.round;
  if (!round) return "unreadable";
  const name = queryName(round);
  const others = [...charges].filter(([other]) => other !== name).map(([, charge]) => charge);
  return refusal(policy, round, charges.get(name), others, now);
}

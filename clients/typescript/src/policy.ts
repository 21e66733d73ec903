/** What a device agrees to: docs/protocol/policy.md. All arithmetic is that of whole numbers. */

import { InvalidSetting } from "./errors.js";
import { isArrayOf, isNumber, isObject, isText, isWhole } from "./objects.js";
import { ONE, readRound, type Round, type Terms } from "./rounds.js";

/** One row of a policy's table. */
export interface Row {
  readonly threshold: number;
  readonly limits: readonly number[];
  readonly rates: readonly number[];
  readonly costs: readonly number[];
}

/** A compiled policy, as `thresher policy compile` writes it. A device reads these members of it. */
export interface Policy {
  readonly version: 1;
  readonly period_days: number;
  readonly min_threshold: number;
  readonly max_contributions: number;
  readonly hide_from_contact_list: boolean;
  readonly coins: "any" | "aggregator";
  readonly attributes: readonly string[] | null;
  readonly filters: readonly string[] | null;
  readonly pinned_key: string | null;
  readonly table: { readonly rounds: readonly number[]; readonly rows: readonly Row[] };
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

/** Whether whole numbers follow one another in the order that `sign` says: 1 rising, −1 not rising. */
const isOrdered = (numbers: unknown, sign: 1 | -1, most: number): numbers is number[] =>
  isArrayOf(numbers, (each): each is number => isWhole(each, 0, most)) &&
  numbers.every((each, i) => i === 0 || (sign > 0 ? numbers[i - 1]! < each : numbers[i - 1]! >= each));

function isRow(raw: unknown, columns: number): raw is Row {
  return (
    isObject(raw) && isWhole(raw.threshold, 1) && isOrdered(raw.limits, -1, ONE) && raw.limits.length === columns &&
    isOrdered(raw.rates, 1, ONE) && isArrayOf(raw.costs, (each): each is number => isWhole(each, 0, TOO_MUCH)) &&
    raw.costs.length === raw.rates.length
  );
}

function isTable(raw: unknown): raw is Policy["table"] {
  if (!(isObject(raw) && isOrdered(raw.rounds, 1, 1000) && Array.isArray(raw.rows))) return false;
  const { rounds, rows } = raw as { rounds: number[]; rows: unknown[] };
  return rows.every((row, i) => isRow(row, rounds.length) && (i === 0 || (rows[i - 1] as Row).threshold < row.threshold));
}

const isNames = (raw: unknown): boolean => raw === null || isArrayOf(raw, isText);

const isStated = (): boolean => true; // it is in the table, and not read

/** All members, and what each must be. */
const CHECKS: Readonly<Record<string, (raw: unknown) => boolean>> = {
  version: (raw) => raw === 1,
  max_epsilon: isStated,
  max_delta: isStated,
  period_epsilon: isStated,
  period_delta: isStated,
  period_days: (raw) => isNumber(raw) && raw > 0,
  min_threshold: (raw) => isWhole(raw, 1),
  max_contributions: (raw) => isWhole(raw, 1),
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
 * @throws InvalidSetting that names the member which is missing or wrong. An unknown member is an error too: a
 *   misspelled one would not protect anybody.
 */
export function readPolicy(raw: unknown): Policy {
  const fields = isObject(raw) ? raw : {};
  for (const name of Object.keys({ ...CHECKS, ...fields })) {
    if (!(Object.hasOwn(CHECKS, name) && CHECKS[name]!(fields[name]))) {
      throw new InvalidSetting(
        `policy.${name}`, "is missing, unknown or wrong", "Make the policy with: thresher policy compile.",
      );
    }
  }
  return fields as unknown as Policy;
}

/** The rate of the coins that the device relies on, in units of 2^-32, rounded up. */
function protectingRate({ coins, hide_from_contact_list }: Policy, terms: Terms): number {
  const { contactRate, deviceRate, aggregatorRate } = terms;
  if (coins === "aggregator") return aggregatorRate;
  if (hide_from_contact_list) return Math.min(deviceRate, aggregatorRate); // one of them is 2^32
  const product = BigInt(contactRate) * BigInt(deviceRate) * BigInt(aggregatorRate);
  return Number((product + (1n << 64n) - 1n) >> 64n);
}

const rowOf = ({ table }: Policy, { threshold }: Terms): Row | undefined =>
  table.rows.filter((row) => row.threshold <= threshold).at(-1);

function limit(policy: Policy, terms: Terms): number {
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

/** Reads the configuration of a round: section 3 of docs/protocol/rounds.md. */

import { hasExactly, isNumber, isObject, isText, isWhole, parseJson, type Fields } from "./objects.js";
import { isSmallOrder } from "./public-keys.js";
import { readQuestion, type Question } from "./questions.js";

/** What a query is charged for: it must not change from round to round. */
export interface Terms {
  readonly rounds: number;
  readonly contributions: number;
  readonly threshold: number;
  /** The three rates, in units of 2^-32. */
  readonly contactRate: number;
  readonly deviceRate: number;
  readonly aggregatorRate: number;
}

/** A readable round. */
export interface Round {
  readonly terms: Terms;
  /** The configuration as it came. */
  readonly text: string;
  readonly name: string;
  readonly fleet: string;
  readonly query: string;
  readonly index: number;
  readonly question: Question;
  readonly samplingRate: number;
  readonly bucketSize: number;
  /** Seconds since 1970. */
  readonly deadline: number;
  readonly publicKey: string;
}

/** What one string of a server is. */
export interface Listed {
  readonly name: string;
  /** Null where the configuration is `unreadable`. */
  readonly round: Round | null;
  /** The parsed configuration, for the log. */
  readonly raw: Fields;
}

/** A rate of 1. */
export const ONE = 2 ** 32;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/;
const MEMBERS =
  "version fleet query index round question plan contact_rate device_rate aggregator_rate bucket_size deadline " +
  "key_id public_key guarantees";
const MOST_THRESHOLD = 100_000;
const MOST_ROUNDS = 1000;
const LONGEST_REPORT = 48_000;

const isName = (value: unknown): value is string => typeof value === "string" && NAME.test(value);
const isRate = (value: unknown): value is number => isWhole(value, 1, ONE);

/** Whether s × 2^96 is the product of the three rates; s × 2^64 is whole. */
function isProduct(s: unknown, rates: readonly number[]): s is number {
  if (!(isNumber(s) && s > 0 && s <= 1 && Number.isInteger(s * 2 ** 64))) return false;
  return BigInt(s * 2 ** 64) << 32n === rates.reduce((product, rate) => product * BigInt(rate), 1n);
}

function oddPart(whole: number): number {
  while (whole % 2 === 0) whole /= 2;
  return whole;
}

function readTerms(plan: unknown, raw: Fields): [Terms, samplingRate: number] | [] {
  if (!isObject(plan)) return [];
  const { rounds, threshold, contributions = 1, sampling_rate: samplingRate } = plan;
  const { contact_rate: contactRate, device_rate: deviceRate, aggregator_rate: aggregatorRate } = raw;
  if (
    isWhole(threshold, 1, MOST_THRESHOLD) && isWhole(rounds, 1) && isWhole(contributions, 1) &&
    rounds * contributions <= MOST_ROUNDS && isRate(contactRate) && isRate(deviceRate) && isRate(aggregatorRate) &&
    (deviceRate === ONE || aggregatorRate === ONE) && oddPart(contactRate) < 2 ** 20 &&
    (contributions === 1 || contactRate === ONE) && isProduct(samplingRate, [contactRate, deviceRate, aggregatorRate])
  ) {
    return [{ rounds, contributions, threshold, contactRate, deviceRate, aggregatorRate }, samplingRate];
  }
  return [];
}

/** Bytes of a report: a sealed piece for each contribution. */
export const reportSize = ({ terms, bucketSize }: Pick<Round, "terms" | "bucketSize">): number =>
  terms.contributions * (bucketSize + 48);

function readAll(text: string, raw: Fields): Round | null {
  if (!hasExactly(raw, MEMBERS) || raw.version !== 3) return null;
  const { fleet, query, index, round: name, bucket_size: bucketSize, deadline, key_id, public_key: publicKey } = raw;
  const [terms, samplingRate = 0] = readTerms(raw.plan, raw);
  const question = readQuestion(raw.question);
  if (
    terms && question && isName(fleet) && isName(query) && isName(name) && isName(key_id) &&
    isWhole(index, 0, terms.rounds - 1) && isWhole(bucketSize, 48, 4096) &&
    reportSize({ terms, bucketSize }) <= LONGEST_REPORT && isNumber(deadline) &&
    typeof publicKey === "string" && /^[0-9a-f]{64}$/.test(publicKey) && !isSmallOrder(publicKey) &&
    !(question.randomised && terms.contributions > 1)
  ) {
    return { terms, text, name, fleet, query, index, question, samplingRate, bucketSize, deadline, publicKey };
  }
  return null;
}

/**
 * Reads one string of a server's answer.
 *
 * @returns null for a string that is skipped: it is no JSON object with the name of a round. Where `round` is null the
 *   configuration does not hold together, and the round's reason is `unreadable`.
 */
export function readRound(text: unknown): Listed | null {
  if (!isText(text)) return null;
  const raw = parseJson(text);
  return isObject(raw) && isName(raw.round) ? { name: raw.round, round: readAll(text, raw), raw } : null;
}

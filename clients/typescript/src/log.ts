/** What a device tells the person whose device it is. */

import type { Reason } from "./policy.js";
import type { Listed } from "./rounds.js";
import { LONGEST_LOG, type LogEntry, type Status } from "./state.js";

/** Characters of a question as JSON, and names of attributes, that the log keeps. */
const LONGEST_QUESTION = 2000;
const MOST_NAMES = 20;

/**
 * An entry for a round that was decided.
 *
 * Guarantee: it depends on the round and the policy alone, and not on what the device holds or tossed.
 */
export function logEntry({ name, round, raw }: Listed, reason: Reason | null, time: number): LogEntry {
  const entry = { time, round: name, status: reason ? "refused" : "sealed", reason } as const;
  if (!round) return { ...entry, asked: null };
  const { fleet, query, index, samplingRate, deadline, terms: { threshold, rounds, contributions } } = round;
  const question = raw.question as Record<string, unknown>;
  const isLong = JSON.stringify(question).length > LONGEST_QUESTION;
  const attributes = round.question.attributes.slice(0, MOST_NAMES).map((each) => each.slice(0, 100));
  return {
    ...entry,
    asked: {
      fleet, query, index, question: isLong ? { kind: question.kind } : question, attributes, threshold, samplingRate,
      rounds, contributions, deadline,
    },
  };
}

/** A log with new entries and new statuses, the latest of it. */
export function continued(
  log: readonly LogEntry[], entries: readonly LogEntry[], statuses: ReadonlyMap<string, Status>,
): LogEntry[] {
  const current = (entry: LogEntry): LogEntry => {
    const status = entry.status === "sealed" ? statuses.get(entry.round) : undefined;
    return status ? { ...entry, status } : entry;
  };
  return [...log.map(current), ...entries].slice(-LONGEST_LOG);
}

/** What a device tells the person whose device it is. */

import { own } from "./objects.js";
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
  const question = round && (own(raw, "question") as Record<string, unknown>);
  const isLong = question && JSON.stringify(question).length > LONGEST_QUESTION;
  return {
    time,
    round: name,
    status: reason ? "refused" : "sealed",
    reason,
    fleet: round?.fleet ?? null,
    query: round?.query ?? null,
    question: isLong ? { kind: question.kind } : question,
    attributes: round?.question.attributes.slice(0, MOST_NAMES).map((each) => each.slice(0, 100)) ?? [],
    threshold: round?.threshold ?? null,
    samplingRate: round?.samplingRate ?? null,
    rounds: round?.rounds ?? null,
    contributions: round?.contributions ?? null,
    deadline: round?.deadline ?? null,
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

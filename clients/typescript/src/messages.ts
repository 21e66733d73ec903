/** Requests and answers: section 1 of docs/protocol/rounds.md. */

import { hex } from "./bytes.js";
import { isNumber, isObject } from "./objects.js";
import { randomBytes } from "./randomness.js";
import type { Status } from "./state.js";

/** A request to the server. */
export interface Request {
  readonly path: string;
  readonly token: string;
  readonly body: string;
  /** Goes into the header `thresher-nonce`; null where there is none. */
  readonly nonce: string | null;
  /** The rounds whose reports it hands in. */
  readonly reports: readonly string[];
}

/** The answer to enrolling. */
export interface Enrolled {
  readonly token: string;
  readonly identity: string | null;
}

/** The answer to a visit. */
export interface Visited {
  readonly reports: readonly unknown[];
  readonly rounds: readonly unknown[];
  /** Seconds, from 1 to 86,400. */
  readonly comeBack: number;
}

const VERSION = 2;
export const MOST_REPORTS = 256;
const LONGEST_BODY = 256 * 1024;
/** The longest wait that a server can ask for, in seconds. */
export const LONGEST_WAIT = 86_400;

/** A key or token that fits into a header. */
export const isToken = (value: unknown): value is string => typeof value === "string" && /^[!-~]{1,200}$/.test(value);

export const enrolRequest = (enrolmentKey: string): Request => ({
  path: "/v2/devices", token: enrolmentKey, body: JSON.stringify({ versions: [VERSION] }), nonce: null, reports: [],
});

/**
 * A visit that hands in as many of these reports as fit, in their order.
 *
 * @param reports sealed bytes in base64, by round.
 * @param rounds whether the answer shall list rounds.
 */
export function visitRequest(token: string, reports: Iterable<readonly [string, string]>, rounds: boolean): Request {
  const chosen = [];
  let length = 100;
  for (const [round, sealed] of reports) {
    length += round.length + sealed.length + 30;
    if (length > LONGEST_BODY || chosen.length === MOST_REPORTS) break;
    chosen.push({ round, sealed });
  }
  const body = JSON.stringify({ versions: [VERSION], reports: chosen, rounds });
  return { path: "/v2/visit", token, body, nonce: hex(randomBytes(16)), reports: chosen.map(({ round }) => round) };
}

/** The answer to enrolling, or null if it has not the form of one. */
export function readEnrolled(raw: unknown): Enrolled | null {
  if (!isObject(raw) || raw.version !== VERSION) return null;
  const { token, identity = null } = raw;
  const isIdentity = identity === null || (typeof identity === "string" && /^[0-9a-f]{64}$/.test(identity));
  return isToken(token) && isIdentity ? { token, identity: identity as string | null } : null;
}

/** The answer to a visit, or null if it has not the form of one. */
export function readVisited(raw: unknown): Visited | null {
  if (!isObject(raw) || raw.version !== VERSION) return null;
  const { reports, rounds, come_back: comeBack } = raw;
  if (!(Array.isArray(reports) && Array.isArray(rounds) && isNumber(comeBack))) return null;
  return { reports, rounds, comeBack: Math.min(Math.max(comeBack, 1), LONGEST_WAIT) };
}

const FINAL = ["taken", "closed", "conflict", "rejected"];

/** What the server has decided of the reports of a request, by their rounds. */
export function decidedReports(request: Request, answer: Visited): Map<string, Status> {
  const statuses = new Map<string, Status>();
  for (const report of answer.reports) {
    const { round, status } = (isObject(report) ? report : {}) as { round: string; status: Status };
    if (request.reports.includes(round) && FINAL.includes(status)) statuses.set(round, status);
  }
  return statuses;
}

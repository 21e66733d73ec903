/** How long a device waits before it repeats a request: section 1 of docs/protocol/rounds.md, "Later". */

import { LONGEST_WAIT } from "./messages.js";
import { randomWhole, secureRandomness } from "./randomness.js";

const FIRST = 0.5;
const LONGEST = 300;
/** The longest wait that somebody who answers in the server's place can ask for, in seconds. */
export const LONGEST_OF_STRANGERS = 300;

/**
 * Seconds before the n-th repetition.
 *
 * They are random, so that devices that failed together do not come back together. What the server asks for is added.
 */
export function backOff(n: number, retryAfter: number | null = null): number {
  const longest = Math.min(FIRST * 2 ** Math.min(n - 1, 30), LONGEST);
  const share = Number(randomWhole(4, secureRandomness)) / 2 ** 32;
  return Math.min(retryAfter ?? 0, LONGEST_WAIT) + (longest * (1 + share)) / 2;
}

/** The seconds of a `Retry-After` header: a number or an HTTP date that is still to come; null for anything else. */
export function readRetryAfter(header: string | null, now: number): number | null {
  if (header === null) return null;
  if (/^\d{1,9}(\.\d{1,9})?$/.test(header.trim())) return Number(header);
  const time = Date.parse(header) / 1000;
  return / GMT$/.test(header) && time > now ? time - now : null;
}

/** A token bucket: how much a device reads from its server, in bursts and in the long run. */
export class Allowance {
  readonly #burst: number;
  readonly #aSecond: number;
  #left: number;
  #seen: number | null = null;

  constructor(burst: number, aSecond: number) {
    this.#burst = this.#left = burst;
    this.#aSecond = aSecond;
  }

  /** Takes what a visit has spent out of the bucket; seconds until the next visit may begin. */
  rest(spent: number, now: number): number {
    const since = this.#seen === null ? 0 : Math.max(now - this.#seen, 0);
    this.#seen = now;
    this.#left = Math.min(this.#left + since * this.#aSecond, this.#burst) - spent;
    return Math.max(-this.#left / this.#aSecond, 0);
  }
}

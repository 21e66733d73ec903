/** Random bits, and all that one round draws before a value is read: section 4 of docs/protocol/rounds.md. */

import { hex, type Bytes } from "./bytes.js";
import type { Choices } from "./choices.js";

/** Fills bytes with random bits. */
export type Randomness = (bytes: Bytes) => void;

/** The most bytes that `crypto.getRandomValues` fills at once. */
const MOST_AT_ONCE = 65_536;

/** The platform's secure source. */
export const secureRandomness: Randomness = (bytes) => {
  for (let at = 0; at < bytes.length; at += MOST_AT_ONCE) crypto.getRandomValues(bytes.subarray(at, at + MOST_AT_ONCE));
};

export function randomBytes(length: number, randomness: Randomness = secureRandomness): Bytes {
  const bytes = new Uint8Array(length);
  randomness(bytes);
  return bytes;
}

/** A random whole number of so many bytes, big-endian. */
export const randomWhole = (bytes: number, randomness: Randomness): bigint =>
  BigInt(`0x${hex(randomBytes(bytes, randomness))}`);

/** What one round draws. */
export interface Draws extends Choices {
  /** Whether the coin of each contribution is heads. */
  readonly heads: readonly boolean[];
  /** 16 bytes for the decoy of each contribution. */
  readonly decoys: readonly Bytes[];
}

const ONE = 2 ** 32;

/** Whether a coin is heads: 32 random bits, read as a whole number, are below the rate. */
export const isHeads = (bits: number, deviceRate: number): boolean => bits < deviceRate;

/**
 * Draws everything that a round needs.
 *
 * Guarantee: the number of bits depends on the round alone. A coin is 32 random bits, compared as a whole number.
 *
 * @param parts how many parts the question has, and `attributes` how many attributes it reads.
 */
export function drawAll(
  round: { deviceRate: number; contributions: number }, parts: number, attributes: number, randomness: Randomness,
): Draws {
  const { deviceRate, contributions } = round;
  const whole = (bytes: number): bigint => randomWhole(bytes, randomness);
  const times = <T>(count: number, draw: () => T): T[] => Array.from({ length: count }, draw);
  return {
    heads: times(contributions, () => deviceRate === ONE || isHeads(Number(whole(4)), deviceRate)),
    places: times(attributes, () => whole(24)),
    // One of up to 1000^parts combinations is chosen: 10 bits for each part, and 128 more.
    picks: contributions === 1 ? times(parts, () => whole(24)) : times(contributions, () => whole(16 + 2 * parts)),
    draw: Number(whole(7) >> 3n) * 2 ** -53,
    decoys: times(contributions, () => randomBytes(16, randomness)),
  };
}

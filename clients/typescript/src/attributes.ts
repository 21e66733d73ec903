/** Reads what a device holds. Whatever the app's own code does meanwhile, the result is values, or none. */

import { sleep } from "./turns.js";

/**
 * What a device holds: values by name, or a function that returns them when rounds are answered.
 *
 * A value may be a function too, or a promise. An array has several values.
 */
export type Attributes = Readonly<Record<string, unknown>> | (() => unknown);

/**
 * The values of some attributes, each function being called once.
 *
 * Guarantee: never rejects, and ends after `seconds` at the latest, unless a function blocks the thread. A function
 * that throws, rejects or takes longer has no value. Own properties count, and nothing else.
 */
export async function readAttributes(
  attributes: Attributes, names: ReadonlySet<string>, seconds: number,
): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>();
  if (names.size === 0) return found;
  const all = valueOf(attributes);
  const reading = Promise.all(
    [...names].map(async (name) => {
      try {
        const held = (await all) as Record<string, unknown>;
        if (Object.hasOwn(held, name)) found.set(name, await valueOf(held[name]));
      } catch {
        // no value
      }
    }),
  );
  const limit = new AbortController();
  await Promise.race([reading, sleep(seconds, limit.signal).catch(() => {})]);
  limit.abort();
  return new Map(found); // what arrives later does not count
}

const valueOf = async (value: unknown): Promise<unknown> => (typeof value === "function" ? value() : value);

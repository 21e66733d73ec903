/** The packed form of a policy's table, for the policy that ships with the device. */

import type { Row } from "./policy.js";

/** Lists of numbers, one a line: each number is the step from the one before, `a` or `a.b` for a × 2^b, in base 36. */
function unpack(packed: string): number[][] {
  return packed.split("\n").map((line) => {
    let last = 0;
    return line.split(" ").map((step) => {
      const [whole, shift = "0"] = step.split(".") as [string, string?];
      return (last += parseInt(whole, 36) * 2 ** parseInt(shift, 36));
    });
  });
}

/** A number of three digits and zeros, from its place among all such numbers. */
function unplaced(place: number): number {
  const zeros = Math.max(Math.floor((place - 100) / 900), 0);
  return (place - 900 * zeros) * 10 ** zeros;
}

/** The rows of a table, as scripts/default-policy.mjs packs them. */
export function unpackRows(thresholds: readonly number[], limits: string, rates: string, costs: string): Row[] {
  const [allLimits, allRates, allCosts] = [unpack(limits), unpack(rates), unpack(costs)];
  return thresholds.map((threshold, i) => ({
    threshold, limits: allLimits[i]!, rates: allRates[i]!, costs: allCosts[i]!.map(unplaced),
  }));
}

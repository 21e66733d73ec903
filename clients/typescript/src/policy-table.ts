/** The packed form of a policy's table, for the policy that ships with the device. */

import type { Policy } from "./policy.js";

/** Numbers in base 36 with commas between them, each as the step from the one before. */
function unpackNumbers(packed: string): number[] {
  let last = 0;
  return packed.split(",").map((step) => (last += parseInt(step, 36)));
}

/** `rounds|threshold;limits;rates;costs|…`, as scripts/default-policy.mjs writes it. */
export function unpackTable(packed: string): Policy["table"] {
  const [rounds, ...rows] = packed.split("|").map((row) => row.split(";").map(unpackNumbers));
  return {
    rounds: rounds![0]!,
    rows: rows.map(([threshold, limits, rates, costs]) => ({
      threshold: threshold![0]!, limits: limits!, rates: rates!, costs: costs!,
    })),
  };
}

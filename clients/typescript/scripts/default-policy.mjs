// Writes src/default-policy.ts from the default policy of src/thresher/device, with its table packed. With --check it
// fails where the file is not current.
import { readFileSync, writeFileSync } from "node:fs";

const source = new URL("../../../src/thresher/device/default_policy.json", import.meta.url);
const target = new URL("../src/default-policy.ts", import.meta.url);

/** A whole number as `a` or `a.b` for a × 2^b, in base 36. */
function packStep(whole) {
  let shift = 0;
  while (whole !== 0 && whole % 2 === 0) [whole, shift] = [whole / 2, shift + 1];
  const [short, long] = [`${whole.toString(36)}.${shift.toString(36)}`, (whole * 2 ** shift).toString(36)];
  return long.length <= short.length ? long : short;
}

const pack = (numbers) => numbers.map((number, i) => packStep(number - (numbers[i - 1] ?? 0))).join(" ");

/** The place of a number among all that have three digits and zeros behind them: 0 to 999, 1000, 1010, … */
function placed(number) {
  const zeros = Math.max(String(number).length - 3, 0);
  if (number % 10 ** zeros !== 0) throw new Error(`a cost has more than three digits: ${number}`);
  return 900 * zeros + number / 10 ** zeros;
}

/** The arguments of `unpackRows` of src/policy-table.ts. */
export const packRows = (rows) => [
  rows.map((row) => row.threshold),
  rows.map((row) => pack(row.limits)).join("\n"),
  rows.map((row) => pack(row.rates)).join("\n"),
  rows.map((row) => pack(row.costs.map(placed))).join("\n"),
];

/** The module with a policy. */
export function moduleOf({ table, ...settings }) {
  const { bounds, rounds, rows } = table;
  const [thresholds, ...lists] = packRows(rows);
  return `/** Written by scripts/default-policy.mjs from src/thresher/device/default_policy.json: do not edit. */

import type { Policy } from "./policy.js";
import { unpackRows } from "./policy-table.js";

/** The policy of devices that are given no other. */
export const defaultPolicy = (): Policy => ({
${Object.entries(settings).map(([name, value]) => `  ${name}: ${JSON.stringify(value)},\n`).join("")}  table: {
    bounds: ${JSON.stringify(bounds)},
    rounds: ${JSON.stringify(rounds)},
    rows: unpackRows(
      ${JSON.stringify(thresholds)},
${lists.map((list) => `      \`${list}\`,\n`).join("")}    ),
  },
});
`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const content = moduleOf(JSON.parse(readFileSync(source, "utf8")));
  if (process.argv.includes("--check")) {
    if (readFileSync(target, "utf8") !== content) throw new Error("src/default-policy.ts is not current: npm run generate");
  } else writeFileSync(target, content);
}

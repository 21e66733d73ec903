// Writes src/default-policy.ts from docs/protocol/default-policy.json, with its table packed. With --check it fails where
// the file is not current. While the JSON does not exist, the module has no policy.
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const source = new URL("../../../docs/protocol/default-policy.json", import.meta.url);
const target = new URL("../src/default-policy.ts", import.meta.url);

export function packNumbers(numbers) {
  if (numbers.length === 0) throw new Error("the table has an empty list");
  return numbers.map((number, i) => (number - (numbers[i - 1] ?? 0)).toString(36)).join(",");
}

/** The table as text; `unpackTable` of src/policy-table.ts reads it. */
export const packTable = ({ rounds, rows }) =>
  [packNumbers(rounds), ...rows.map((row) => [[row.threshold], row.limits, row.rates, row.costs].map(packNumbers).join(";"))].join("|");

/** The module with a policy, or without one. */
export function moduleOf(policy) {
  const first = "/** Written by scripts/default-policy.mjs from docs/protocol/default-policy.json: do not edit. */\n";
  if (policy === null) return `${first}\n/** There is none yet: a policy must be given. */\nexport const defaultPolicy = (): unknown => undefined;\n`;
  const { table, ...settings } = policy;
  return `${first}
import type { Policy } from "./policy.js";
import { unpackTable } from "./policy-table.js";

/** The policy of devices that are given no other. */
export const defaultPolicy = (): Policy => ({
${Object.entries(settings).map(([name, value]) => `  ${name}: ${JSON.stringify(value)},\n`).join("")}  table: unpackTable(
    "${packTable(table)}",
  ),
}) as Policy;
`;
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const content = moduleOf(existsSync(source) ? JSON.parse(readFileSync(source, "utf8")) : null);
  if (process.argv.includes("--check")) {
    if (readFileSync(target, "utf8") !== content) throw new Error("src/default-policy.ts is not current: npm run generate");
  } else writeFileSync(target, content);
}

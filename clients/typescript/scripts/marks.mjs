// Writes src/marks.ts from docs/protocol/vectors/marks.json. With --check it fails where the file is not current.
import { readFileSync, writeFileSync } from "node:fs";

const source = new URL("../../../docs/protocol/vectors/marks.json", import.meta.url);
const target = new URL("../src/marks.ts", import.meta.url);

let last = 0;
const steps = JSON.parse(readFileSync(source, "utf8")).map((range) => {
  const [first, end] = [parseInt(range.first, 16), parseInt(range.last, 16)];
  const step = (first - last).toString(36) + (end > first ? `.${(end - first).toString(36)}` : "");
  last = end;
  return step;
});
const content = `/** Written by scripts/marks.mjs from docs/protocol/vectors/marks.json: do not edit. */

/**
 * The combining marks of the protocol, as ranges of code points in base 36: how far the first is behind the last of
 * the range before, and, after a point, how many more there are.
 */
export const MARKS =
  "${steps.join(" ").replace(/(.{100}[^ ]*) /g, '$1 " +\n  "')}";
`;
if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== content) throw new Error("src/marks.ts is not current: npm run generate");
} else writeFileSync(target, content);

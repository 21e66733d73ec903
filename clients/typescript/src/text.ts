/** Text, and values as text: section 2 of docs/protocol/answers.md. */

import { WallTime } from "./dates.js";
import { MARKS } from "./marks.js";
import { isText } from "./objects.js";

const MOST_DIGITS = 4300n;
const MOST_MARKS = 30;

/** Matches more marks in a row than a text may have. */
const TOO_MANY_MARKS = /* @__PURE__ */ (() => {
  let last = 0;
  const ranges = MARKS.split(" ").map((range) => {
    const [step, more = "0"] = range.split(".") as [string, string?];
    const first = last + parseInt(step, 36);
    last = first + parseInt(more, 36);
    return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  });
  return new RegExp(`[${ranges.join("")}]{${MOST_MARKS + 1}}`, "u");
})();

/** Text in the form in which it is counted, or null if it is no value. */
export function normalText(held: string): string | null {
  if (!isText(held)) return null;
  const text = held.replaceAll("\0", "");
  return TOO_MANY_MARKS.test(text) ? null : text.normalize("NFC");
}

/** Any single value as the text that `values` counts, or null if it has none. */
export function valueText(value: unknown): string | null {
  switch (typeof value) {
    case "string":
      return normalText(value);
    case "number":
      return Number.isNaN(value) ? null : String(value);
    case "bigint":
      return (value < 0n ? -value : value) < 10n ** MOST_DIGITS ? String(value) : null;
    case "boolean":
      return String(value);
    default:
      return WallTime.of(value)?.text ?? null;
  }
}

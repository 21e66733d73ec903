/** Numbers as doubles. */

/** The double of a number or whole number, infinities included; null for NaN and for all else. */
export function asDouble(value: unknown): number | null {
  if (typeof value === "bigint") return Number(value);
  return typeof value === "number" && !Number.isNaN(value) ? value : null;
}

/** How many of some rising numbers are at most x. */
export function countUpTo(rising: readonly number[], x: number): number {
  let [low, high] = [0, rising.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rising[middle]! <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

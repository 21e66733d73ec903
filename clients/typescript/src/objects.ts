/** JSON of a server, and what its members are. */

export type Fields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Parses JSON into objects without a prototype: a member is there only if it was sent, names such as `__proto__` mean
 * nothing, and a page that changes `Object.prototype` changes nothing.
 *
 * @returns undefined where the text is no JSON, or nested too deep for this engine.
 */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text, (_, value) => (isObject(value) ? Object.assign(Object.create(null), value) : value));
  } catch {
    return undefined;
  }
}

/** Whether a value is an object with exactly these members; `names` are separated by blanks. */
export function hasExactly(value: unknown, names: string): value is Fields {
  const all = names.split(" ");
  return (
    isObject(value) && Object.keys(value).length === all.length && all.every((name) => Object.hasOwn(value, name))
  );
}

/** Whether a value is a whole number from `least` to `most`, both at most 2^53 − 1. */
export const isWhole = (value: unknown, least: number, most: number = Number.MAX_SAFE_INTEGER): value is number =>
  Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;

/** A finite number. */
export const isNumber = (value: unknown): value is number => Number.isFinite(value);

/** Well-formed text: no surrogate stands without its partner. */
export const isText = (value: unknown): value is string => typeof value === "string" && !/\p{Surrogate}/u.test(value);

export const isArrayOf = <T>(value: unknown, is: (element: unknown) => element is T): value is T[] =>
  Array.isArray(value) && value.every(is);

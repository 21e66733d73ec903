/** Days and times on a wall clock: sections 1 and 2 of docs/protocol/answers.md. */

export type Every = "day" | "week" | "month";

const DAY = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/;
const CLOCK =
  /^[T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)?$/;
const A_DAY = 86_400_000;

const atMidnight = (day: string): number => Date.parse(`${day}T00:00Z`);
const dayAt = (time: number): string => new Date(time).toISOString().slice(0, 10);

/** Whether text is `YYYY-MM-DD`, and the calendar of the years 1 to 9999 has this day. */
export function isDay(text: unknown): text is string {
  if (typeof text !== "string" || !DAY.test(text) || text < "0001") return false;
  const time = atMidnight(text);
  // Some engines read 30 February as 1 March.
  return !Number.isNaN(time) && dayAt(time) === text;
}

/**
 * A date, or a time on a wall clock, as the text that is counted.
 *
 * A `Date` is a time on the device's own clock, in its time zone. For a calendar day hold text: "2024-02-29".
 */
export class WallTime {
  /** `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SS`, with `.` and six digits where the fraction is not zero. */
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** The time that a value is, or null. */
  static of(value: unknown): WallTime | null {
    if (value instanceof WallTime) return value;
    try {
      const time = Date.prototype.getTime.call(value);
      // UTC's clock shows then what the local clock shows now.
      const text = new Date(time - new Date(time).getTimezoneOffset() * 60_000).toISOString();
      const isInRange = text.length === 24 && text >= "0001";
      return isInRange ? new WallTime(text.replace(/(\.000)?Z/, (_, whole) => (whole ? "" : "000"))) : null;
    } catch {
      return null; // no Date, or one that is not valid
    }
  }
}

/** The day of a value (text, a date or a time) as `YYYY-MM-DD`, or null. */
export function dayOf(value: unknown): string | null {
  const text = typeof value === "string" ? value : WallTime.of(value)?.text;
  if (text === undefined) return null;
  const day = text.slice(0, 10);
  return isDay(day) && (text.length === 10 || CLOCK.test(text.slice(10))) ? day : null;
}

/** The first day of the day, the week (Monday) or the month that a day is in. */
export function firstDay(day: string, every: Every): string {
  if (every === "day") return day;
  if (every === "month") return `${day.slice(0, 8)}01`;
  const time = atMidnight(day);
  // 1970-01-01 was a Thursday, the day 3 of its week.
  const place = ((((time / A_DAY + 3) % 7) + 7) % 7) * A_DAY;
  return dayAt(time - place);
}

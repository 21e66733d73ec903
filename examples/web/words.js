/** What was asked and what became of it, in words for the person whose device it is. Texts of a server are shortened. */

const LONGEST = 80;
const MOST = 5;

const short = (value) => {
  const characters = [...String(value)];
  return characters.length > LONGEST ? `${characters.slice(0, LONGEST).join("")} …` : characters.join("");
};

/** "a, b and c"; of a long list, its beginning. */
const list = (items, word = "and") => {
  const shown = items.slice(0, MOST).map(short);
  const more = items.length - shown.length;
  if (more > 0) shown.push(`${more} more`);
  return shown.length < 2 ? (shown[0] ?? "nothing") : `${shown.slice(0, -1).join(", ")} ${word} ${shown.at(-1)}`;
};

const KINDS = {
  values: ({ columns }) => list(columns),
  bins: ({ column, edges }) => `in which of ${edges.length - 1} ranges ${short(column)} lies`,
  cells: ({ column, cells }) => `in which of ${cells} ranges ${short(column)} lies`,
  below: ({ column, split }) => `whether ${short(column)} is below ${split}`,
  points: ({ column, points }) => `${short(column)}, rounded at random to one of ${points.length} numbers`,
  dates: ({ column, every }) => `the ${short(every)} of ${short(column)}`,
  prefixes: ({ column, length, known }) =>
    `the first ${length} characters of ${short(column)}${known > 0 ? ", if its beginning is a common one" : ""}`,
  recounted_prefixes: (question) => KINDS.prefixes(question),
  joint: ({ parts }) => list(parts.map(part)),
  filtered: ({ question, where }) => `${part(question)}, if ${list(where.map(condition))}`,
};

const part = (question) => KINDS[question.kind](question);

const condition = ({ column, among, from, below }) => {
  if (among) return `${short(column)} is ${list(among, "or")}`;
  const ends = [from === null ? "" : `from ${short(from)}`, below === null ? "" : `below ${short(below)}`];
  return `${short(column)} is ${ends.filter(Boolean).join(" and ")}`;
};

/** What a round asked. */
export function question(asked) {
  if (!asked) return "A question that this device cannot read";
  try {
    const words = part(asked.question);
    return words[0].toUpperCase() + words.slice(1);
  } catch {
    return `Something about ${list(asked.attributes)}`; // of a very long question only its kind is kept
  }
}

const percent = new Intl.NumberFormat("en", { style: "percent", maximumSignificantDigits: 2 });
const number = new Intl.NumberFormat("en");

/** How a round protects those who answer. */
export function terms(asked) {
  if (!asked) return "";
  const { samplingRate, threshold, rounds, index } = asked;
  const which = rounds > 1 ? `Round ${index + 1} of at most ${number.format(rounds)}. ` : "";
  return `${which}${percent.format(samplingRate)} of the answers are counted, and a count below ${number.format(threshold)} is dropped.`;
}

export const STATUSES = {
  sealed: ["Waiting", "Sealed and kept here until the server has it."],
  taken: ["Answered", "The server has the sealed answer."],
  refused: ["Refused", ""],
  closed: ["Too late", "The round ended before the server had the sealed answer."],
  conflict: ["Not counted", "The server holds another answer of this device."],
  rejected: ["Not counted", "The server does not take this answer."],
};

/** Why a device refuses. */
export const REASONS = {
  unreadable: "The question is not written as the protocol says.",
  deadline: "It would stay open for more than a year.",
  key: "It is not sealed for the key that this device trusts.",
  attribute: "This device does not answer questions about that.",
  filter: "This device does not let itself be selected by that.",
  coins: "The wrong party would toss the coins.",
  threshold: "Too small a group could be seen: the threshold is too low.",
  contributions: "It asks for too many values at once.",
  limit: "It would cost more privacy than one question may.",
  terms: "It was first asked under other terms.",
  answered: "This device has answered it before.",
  budget: "The privacy budget of these 30 days does not cover it.",
};

/**
 * Compares answers after normalisation, for answers that are a name, a date, a time, an amount or a few words: "$47k"
 * equals "47,000 dollars", "May 14" equals "14th of May", and "The Falcon deadline is May 14." equals "May 14" for a
 * question about the Falcon deadline. All other words must be the same in the same order, so an answer that lists
 * several candidates is wrong.
 *
 * Long free answers (real mail's) match only when worded alike: for them this is a lower bound, and a judge is needed.
 */

const monthNames = "january february march april may june july august september october november december".split(" ");
const month = `(${monthNames.map((name) => `${name}|${name.slice(0, 3)}`).join("|")}|sept)`;
const day = "(\\d{1,2})(?:st|nd|rd|th)?";
const year = "(?:,?\\s+(\\d{4}))?";
const factors: Readonly<Record<string, number>> = {
  k: 1e3,
  thousand: 1e3,
  m: 1e6,
  million: 1e6,
  bn: 1e9,
  billion: 1e9,
};
const smallNumbers = "zero one two three four five six seven eight nine ten eleven twelve".split(" ");

/** Words without content for an answer. "or" and "not" are not among them. */
const functionWords = new Set(
  `a an the it its he she they we you is was were be been will would are has have had this that there and on in at by to
   for of from as with total about approximately held scheduled set named called located place takes take`.split(/\s+/),
);

const weekdays = new Set("monday tuesday wednesday thursday friday saturday sunday".split(" "));

const two = (value: string | number) => String(value).padStart(2, "0");

function dateToken(monthNumber: number, dayOfMonth: string, yearNumber: string | undefined): string {
  return ` date${two(monthNumber)}${two(dayOfMonth)} ${yearNumber ? `year${yearNumber}` : ""} `;
}

/** 1 for "January", "jan" ... */
const monthNumber = (text: string) => 1 + monthNames.findIndex((name) => name.startsWith(text.slice(0, 3)));

function timeToken(hours: string, minutes: string | undefined, half: string | undefined): string {
  const hour = half ? (Number(hours) % 12) + (half.startsWith("p") ? 12 : 0) : Number(hours);
  return ` time${two(hour)}${two(minutes ?? 0)} `;
}

/** Converts every form of a date, a time or a number to one token. Order matters: dates before plain numbers. */
const forms: readonly (readonly [RegExp, (...match: string[]) => string])[] = [
  [/(?<=^|[\s($€£])[-\u2212](?=[$€£]?\.?\d)/g, () => " minus "],
  [/(\d),(?=\d{3}(?!\d))/g, (_, digit = "") => digit],
  [/\b(\d{4})-(\d{2})-(\d{2})\b/g, (_, y, m, d = "") => dateToken(Number(m), d, y)],
  [/\b(\d{1,2})\/(\d{1,2})\/(\d{4})\b/g, (_, m, d = "", y) => dateToken(Number(m), d, y)],
  [
    new RegExp(`\\b${month}\\.?\\s+(?:the\\s+)?${day}\\b${year}`, "g"),
    (_, m = "", d = "", y) => dateToken(monthNumber(m), d, y),
  ],
  [
    new RegExp(`\\b${day}\\s+(?:of\\s+)?${month}\\b\\.?${year}`, "g"),
    (_, d = "", m = "", y) => dateToken(monthNumber(m), d, y),
  ],
  [/\b(\d{1,2})(?::(\d{2}))?\s*([ap])\.?\s?m\b\.?/g, (_, h = "", min, half) => timeToken(h, min, half)],
  [/\b(\d{1,2}):(\d{2})\b/g, (_, h = "", min) => timeToken(h, min, undefined)],
  [
    /(\d+(?:\.\d+)?)\s*(k|thousand|m|million|bn|billion)\b/g,
    (_, n, unit = "") => String(Number((Number(n) * (factors[unit] ?? 1)).toPrecision(12))),
  ],
  [/(\d+\.\d*?)0+(?!\d)/g, (_, n = "") => n.replace(/\.$/, "")],
  [/\b(us)?\$|\b(us )?dollars?\b|\busd\b/g, () => " "],
  [/([€£])\s*(\d+(?:\.\d+)?)/g, (_, sign = "", n) => `${n} ${sign} `],
  [/€|\beuros?\b/g, () => " eur "],
  [/£|\bpounds?\b/g, () => " gbp "],
  [/%|\bper ?cent\b/g, () => " percent "],
  [/['’]s\b/g, () => ""],
];

function tokens(text: string): string[] {
  let rest = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  for (const [pattern, form] of forms) rest = rest.replace(pattern, form);
  return (rest.match(/\p{N}+(?:\.\p{N}+)+|[\p{L}\p{N}]+/gu) ?? []).map((word) => {
    const number = smallNumbers.indexOf(word);
    return number < 0 ? word : String(number);
  });
}

const isYear = (token: string) => /^year\d{4}$/.test(token);
const same = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((word, i) => word === b[i]);

/**
 * Whether `given` is equivalent to `golden`. Ignores case, punctuation, articles and similar words, and words repeated
 * from the question. `given` may add a weekday or a year, but not omit one.
 */
export function sameAnswer(given: string, golden: string, question = ""): boolean {
  // Also limits the cost of very long answers.
  if (given.length > 4 * golden.length + 400) return false;
  const wanted = tokens(golden);
  const extra = (token: string) => !wanted.includes(token) && (weekdays.has(token) || isYear(token));
  const said = tokens(given).filter((token) => !extra(token));
  if (wanted.length > 0 && same(said, wanted)) return true;

  const without = (list: string[], ...left: ReadonlySet<string>[]) =>
    list.filter((token) => !left.some((set) => set.has(token)));
  const asked = new Set(tokens(question));
  for (const left of [[functionWords], [functionWords, asked]]) {
    const [short, shortWanted] = [without(said, ...left), without(wanted, ...left)];
    if (shortWanted.length > 0 && same(short, shortWanted)) return true;
  }
  return false;
}

const givingUp =
  /^\W*(sorry\W+|unfortunately\W+)?(i )?(do not|don'?t|could not|couldn'?t|cannot|can'?t|was not able to|was unable to) (know|find|answer)\b|\b(not|none) found\b|^\W*(unknown|n\/a|none|no answer|not available|not sure|no information)\b/i;

/** Whether the answer states that there is none. */
export function isGivingUp(given: string): boolean {
  return givingUp.test(given.slice(0, 200)) || given.trim() === "";
}

/** The tables of the documentation, in Markdown, from the outcomes of `yarn learning`. */
import type { Evaluated, Kind, Outcome } from "./experiments.js";

const percent = (share: number, digits = 1) => `${(100 * share).toFixed(digits)} %`;
const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

const percentOf = (one: Evaluated | undefined) => (one ? percent(one.success) : "–");

/** "73.0 % (66 to 79)" */
const withInterval = ({ success, low, high }: Evaluated) =>
  `${percent(success)} (${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)})`;

/** "68.7 % (66.0 to 73.0)": mean, lowest and highest. */
function ofSeveral(values: readonly number[]): string {
  if (values.length === 0) return "–";
  if (values.length === 1) return percent(values[0] as number);
  const bounds = [Math.min(...values), Math.max(...values)].map((value) => (100 * value).toFixed(1));
  return `${percent(mean(values))} (${bounds.join(" to ")})`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`);
  return lines.join("\n");
}

const WAYS: readonly { readonly title: string; readonly of: (outcome: Outcome) => readonly Evaluated[] }[] = [
  { title: "sampled", of: ({ heldOut }) => heldOut },
  { title: "greedy", of: ({ greedy }) => greedy },
  { title: "other names, sampled", of: ({ unseenNames }) => unseenNames },
  { title: "other names, greedy", of: ({ unseenNamesGreedy }) => unseenNamesGreedy },
];

const waysOf = (outcomes: readonly Outcome[]) => WAYS.filter(({ of }) => outcomes.some((one) => of(one).length > 0));

/**
 * Of an evaluation: the base first, what imitation made of it where there was some, the trained checkpoint last. A control of
 * imitation is evaluated without the base.
 */
const before = (list: readonly Evaluated[]) => list.find(({ checkpoint }) => checkpoint === "base");
const imitated = (list: readonly Evaluated[]) => list.slice(before(list) ? 1 : 0, -1);
const after = (list: readonly Evaluated[]) => list.at(-1) as Evaluated;

/** Success of each run before and after training, with its 95 % interval. */
export function runsTable(outcomes: readonly Outcome[]): string {
  const ways = waysOf(outcomes);
  const taught = outcomes.some((one) => ways.some(({ of }) => imitated(of(one)).length > 0));
  return table(
    ["run", ...ways.flatMap(({ title }) => [`${title}: before`, ...(taught ? ["after imitation"] : []), "after"])],
    outcomes.map((one) => [
      one.name,
      ...ways.flatMap(({ of }) => [
        percentOf(before(of(one))),
        ...imitated(of(one)).map(withInterval),
        withInterval(after(of(one))),
      ]),
    ]),
  );
}

const TITLES: Readonly<Record<Kind, string>> = {
  seed: "the task's reward",
  success: "rewards 0 and 1 alone",
  coins: "control: random rewards",
};

const kindsOf = (outcomes: readonly Outcome[]) =>
  (Object.keys(TITLES) as Kind[]).flatMap((kind) => {
    const own = outcomes.filter((one) => one.kind === kind);
    return own.length === 0
      ? []
      : [{ title: `${TITLES[kind]}, ${own.length} ${own.length === 1 ? "seed" : "seeds"}`, own }];
  });

/** Of all runs those whose base is shown: others have the same. */
function ofBase(outcomes: readonly Outcome[]): readonly Outcome[] {
  const seeds = outcomes.filter(({ kind }) => kind === "seed");
  return seeds.length > 0 ? seeds : outcomes;
}

/** Success by what trained: the mean over seeds, the lowest and the highest. */
export function meansTable(outcomes: readonly Outcome[]): string {
  const ways = waysOf(outcomes);
  const row = (title: string, own: readonly Outcome[], pick: typeof before) => [
    title,
    ...ways.map(({ of }) => ofSeveral(own.flatMap((one) => pick(of(one))?.success ?? []))),
  ];
  return table(
    ["success", ...ways.map(({ title }) => title)],
    [
      row("before training", ofBase(outcomes), before),
      ...kindsOf(outcomes).map(({ title, own }) => row(title, own, after)),
    ],
  );
}

/**
 * How the email task's held-out questions were played, sampled: rollouts that opened the mail with the answer, what share of
 * those was right, and calls that did not run by cause, for a hundred rollouts.
 */
export function playTable(outcomes: readonly Outcome[]): string {
  const row = (title: string, lists: readonly Evaluated[]) => {
    const part = (name: string) => lists.map(({ parts }) => parts[name]?.mean ?? Number.NaN);
    const rollouts = (name: string) =>
      lists.reduce((sum, { parts }) => sum + (parts[name]?.mean ?? Number.NaN) * (parts[name]?.n ?? 0), 0);
    const read = rollouts("read");
    const errors = (names: (name: string) => boolean) =>
      mean(
        lists.map(({ tool_errors: causes, n }) => {
          const counted = Object.entries(causes).filter(([name]) => names(name));
          return (100 * counted.reduce((sum, [, count]) => sum + count, 0)) / n;
        }),
      ).toFixed(1);
    return [
      title,
      ofSeveral(part("read")),
      read === 0 ? "–" : `${percent(rollouts("grounded") / read)} of ${read.toFixed(0)}`,
      errors((name) => name === "malformed"),
      errors((name) => name !== "malformed"),
    ];
  };
  return table(
    [
      "rollouts of held-out questions, sampled",
      "opened the right mail",
      "of those, answered right",
      "malformed calls in 100 rollouts",
      "other calls that did not run",
    ],
    [
      row(
        "before training",
        ofBase(outcomes).flatMap(({ heldOut }) => before(heldOut) ?? []),
      ),
      ...kindsOf(outcomes).map(({ title, own }) =>
        row(
          title,
          own.map(({ heldOut }) => after(heldOut)),
        ),
      ),
    ],
  );
}

/** Success of the training rollouts of each step, in percent. */
export function stepsTable(outcomes: readonly Outcome[]): string {
  const steps = Math.max(...outcomes.map(({ training }) => training.length));
  return table(
    ["run", ...Array.from({ length: steps }, (_, i) => `${i + 1}`)],
    outcomes.map(({ name, training }) => [name, ...training.map((share) => (100 * share).toFixed(0))]),
  );
}

/** Success in the runs' own validations, in percent. */
export function validationsTable(outcomes: readonly Outcome[]): string {
  const steps = outcomes[0]?.validations.map(({ step }) => `${step}`) ?? [];
  return table(
    ["run", ...steps.map((step) => `step ${step}`)],
    outcomes.map(({ name, validations }) => [name, ...validations.map(({ success }) => (100 * success).toFixed(0))]),
  );
}

/** All tables that the outcomes have figures for. */
export function tablesOf(outcomes: readonly Outcome[]): string[] {
  const opened = outcomes.every(({ heldOut }) => heldOut.every(({ parts }) => "read" in parts));
  const validated = outcomes.some(({ validations }) => validations.length > 2);
  return [
    meansTable(outcomes),
    ...(opened ? [playTable(outcomes)] : []),
    runsTable(outcomes),
    ...(validated ? [validationsTable(outcomes)] : []),
    stepsTable(outcomes),
  ];
}

/**
 * A whole task in one file: sums in words, with a calculator that does not know the words.
 *
 *     yarn rollout --task examples/word-sums.ts --expert --n 2 --show
 *     yarn rollout --task examples/word-sums.ts --expert --mistakes 1 --show    # by a player who does not know them either
 *
 * "Ann has 36 pears and loses 4 of them and then orders 2 times as many. How many?" One verb or two, and each stands for
 * one of four operations. docs/tiny-model.md teaches a model what they mean by the results alone.
 */
import { type CallRecord, defineTask, defineTool, Random, type Scenario, ToolError, z } from "@hone-rl/hone";

const OPERATORS = ["add", "subtract", "multiply", "divide"] as const;
type Operator = (typeof OPERATORS)[number];

/** Whole numbers only: a division leaves its remainder out. */
const compute: Record<Operator, (a: number, b: number) => number> = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  // A result of -0 would be told as 0.
  divide: (a, b) => Math.trunc(a / b) || 0,
};

const VERBS: Record<Operator, readonly string[]> = {
  add: ["gets", "finds", "buys"],
  subtract: ["loses", "eats", "sells"],
  multiply: ["wants", "needs", "orders"],
  divide: ["splits", "shares", "deals"],
};
const AFTER_NUMBER: Record<Operator, string> = {
  add: " more",
  subtract: " of them",
  multiply: " times as many",
  divide: " ways",
};
const NAMES = ["Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Ida"];
const THINGS = ["pears", "plums", "coins", "cards", "shells", "stamps", "nuts", "beads"];

interface Step {
  readonly verb: string;
  readonly operator: Operator;
  readonly by: number;
}

/** `start`, then each step applied to the result before it. */
interface WordSum extends Scenario {
  readonly start: number;
  readonly steps: readonly Step[];
}

const calculate = defineTool({
  name: "calculate",
  description: "Add, subtract, multiply or divide two whole numbers; a division leaves its remainder out.",
  parameters: z.object({ operator: z.enum(OPERATORS), a: z.int(), b: z.int() }),
  execute: ({ operator, a, b }) => {
    if (operator === "divide" && b === 0) throw new ToolError("a number cannot be divided by 0");
    return { result: compute[operator](a, b) };
  },
});

const answer = defineTool({
  name: "answer",
  description: "Give the result. Ends the conversation.",
  parameters: z.object({ value: z.int() }),
  final: true,
  execute: () => "thank you",
});

const DIVISORS = [2, 3, 4, 5, 6, 7, 8, 9];
const divisorsOf = (value: number) => DIVISORS.filter((by) => value % by === 0);

/** Every two-digit number with each of its divisors. A pair is in one split, whatever the seed. */
const PAIRS = new Random("word sums: pairs")
  .shuffle(
    Array.from({ length: 90 }, (_, i) => 10 + i).flatMap((start) => divisorsOf(start).map((by) => ({ start, by }))),
  )
  .map((pair, index) => ({ ...pair, split: index % 5 === 0 ? ("test" as const) : ("train" as const) }));

/** Results of all choices of operators. */
const results = (start: number, numbers: readonly number[]) =>
  numbers.reduce((values, by) => values.flatMap((value) => OPERATORS.map((name) => compute[name](value, by))), [start]);

const resultOf = ({ start, steps }: Pick<WordSum, "start" | "steps">) =>
  steps.reduce((value, { operator, by }) => compute[operator](value, by), start);

function makeScenario(seed: number, index: number, mostSteps: number): WordSum {
  const random = new Random("word sums", seed, index);
  const split = index % 5 === 0 ? "test" : "train";
  const operators = Array.from({ length: random.integer(1, mostSteps) }, () => random.pick(OPERATORS));
  const verbs = operators.map((operator) => random.pick(VERBS[operator]));
  const [name, things] = [random.pick(NAMES), random.pick(THINGS)];
  for (;;) {
    const { start, by } = random.pick(PAIRS.filter((pair) => pair.split === split));
    const steps: Step[] = [];
    for (const [at, operator] of operators.entries()) {
      // Whatever the operator, the numbers can be divided, so that they do not give it away.
      const numbers = at === 0 ? [by] : divisorsOf(resultOf({ start, steps }));
      if (numbers.length > 0) steps.push({ verb: verbs[at] as string, operator, by: random.pick(numbers) });
    }
    const right = resultOf({ start, steps });
    const all = results(
      start,
      steps.map((step) => step.by),
    );
    // No other choice of operators has the same result.
    if (steps.length < operators.length || all.filter((result) => result === right).length > 1) continue;
    const told = steps.map((step) => `${step.verb} ${step.by}${AFTER_NUMBER[step.operator]}`).join(" and then ");
    const question = `${name} has ${start} ${things} and ${told}. How many?`;
    return {
      id: `sum-${seed}-${index}`,
      split,
      kind: steps.length === 1 ? "one verb" : "two verbs",
      question,
      start,
      steps,
    };
  }
}

const options = z.object({
  scenarios: z.int().min(10).max(100_000).default(1_000).describe("sums, a fifth of them for tests"),
  steps: z.int().min(1).max(2).default(2).describe("the most verbs that a sum has"),
});

const resultIn = (record: CallRecord | undefined) => (record?.result as { result?: number } | undefined)?.result;

export default defineTask<WordSum, undefined, typeof options>({
  name: "word-sums",
  description: "Solve sums in words with a calculator",
  options,
  scenarios: ({ seed, scenarios, steps }) =>
    Array.from({ length: scenarios }, (_, index) => makeScenario(seed, index, steps)),
  prompt: ({ question }) => [
    { role: "system", content: "Solve the sum with the calculator." },
    { role: "user", content: question },
  ],
  tools: [calculate, answer],

  /** The result alone counts: nothing for steps that were right on the way. */
  reward: (rollout, scenario) => {
    const right = rollout.answer?.value === resultOf(scenario);
    return { reward: right ? 1 : 0, success: right, parts: { right: right ? 1 : 0 } };
  },

  /** Says what the verb means, then computes. Its mistake is to draw the meanings at random. */
  *expert({ start, steps }, random, { mistakes = 0 }) {
    const blind = random.chance(typeof mistakes === "number" ? mistakes : (mistakes.blind ?? 0));
    let value = start;
    for (const { verb, operator: right, by } of steps) {
      const operator = blind ? random.pick(OPERATORS) : right;
      const text = `${verb}=${operator}`;
      const [record] = yield { text, calls: [{ name: "calculate", arguments: { operator, a: value, b: by } }] };
      value = resultIn(record) ?? value;
    }
    yield [{ name: "answer", arguments: { value } }];
  },
});

/**
 * A whole task in one file: arithmetic with a calculator that knows one step at a time.
 *
 *     yarn rollout --task examples/arithmetic.ts --expert --show
 *     yarn rollout --task examples/arithmetic.ts --help          # its options: --set steps=3
 *
 * A question such as "What is (17 + 5) × 3 − 4?" takes several calls, each of which needs the result of the one before.
 */
import { type CallRecord, defineTask, defineTool, Random, type Scenario, ToolError, z } from "@hone-rl/hone";

const operators = {
  add: { sign: "+", apply: (a: number, b: number) => a + b },
  subtract: { sign: "−", apply: (a: number, b: number) => a - b },
  multiply: { sign: "×", apply: (a: number, b: number) => a * b },
  divide: { sign: "÷", apply: (a: number, b: number) => a / b },
} as const;

type Operator = keyof typeof operators;

interface Step {
  readonly operator: Operator;
  readonly by: number;
}

/** `start`, then each step applied to what came out before. */
interface ArithmeticScenario extends Scenario {
  readonly start: number;
  readonly steps: readonly Step[];
}

const calculate = defineTool({
  name: "calculate",
  description: "Add, subtract, multiply or divide two numbers.",
  parameters: z.object({
    operator: z.enum(["add", "subtract", "multiply", "divide"]),
    a: z.number(),
    b: z.number(),
  }),
  execute: ({ operator, a, b }) => {
    if (operator === "divide" && b === 0) throw new ToolError("a number cannot be divided by 0");
    return { result: operators[operator].apply(a, b) };
  },
});

const answer = defineTool({
  name: "answer",
  description: "Give the result. Ends the conversation.",
  parameters: z.object({ value: z.number() }),
  final: true,
  execute: () => "thank you",
});

const resultOf = ({ start, steps }: ArithmeticScenario) =>
  steps.reduce((value, { operator, by }) => operators[operator].apply(value, by), start);

const options = z.object({
  scenarios: z.int().min(10).max(100_000).default(500).describe("expressions, a fifth of them for tests"),
  steps: z.int().min(2).max(8).default(4).describe("the most steps that an expression takes"),
});

function makeScenario(seed: number, index: number, most: number): ArithmeticScenario {
  const random = new Random("arithmetic", seed, index);
  const start = random.integer(2, 99);
  const steps = Array.from({ length: random.integer(2, most) }, () => ({
    operator: random.pick(["add", "subtract", "multiply"] as const),
    by: random.integer(2, 20),
  }));
  // Brackets around everything so far make every step apply to the whole of it.
  const expression = steps.reduce(
    (text, { operator, by }, step) => `${step === 0 ? text : `(${text})`} ${operators[operator].sign} ${by}`,
    String(start),
  );
  return {
    id: `sum-${seed}-${index}`,
    split: index % 5 === 0 ? "test" : "train",
    question: `What is ${expression}?`,
    start,
    steps,
  };
}

/** What the calculator showed, if it showed anything. */
const outcome = (record: CallRecord | undefined) => (record?.result as { result?: number } | undefined)?.result;

export default defineTask<ArithmeticScenario, undefined, typeof options>({
  name: "arithmetic",
  description: "Compute an expression with a calculator, one step at a time",
  options,
  scenarios: ({ seed, scenarios, steps }) =>
    Array.from({ length: scenarios }, (_, index) => makeScenario(seed, index, steps)),
  prompt: ({ question }, { maxTurns }) => [
    {
      role: "system",
      content: `You compute with the calculator, one step at a time. You may take up to ${maxTurns} turns.`,
    },
    { role: "user", content: question },
  ],
  tools: [calculate, answer],

  /** 1 for the right result, up to 0.1 less for needless turns; for a wrong one 0.3 times the share of right steps. */
  reward: (rollout, scenario) => {
    const right = rollout.answer?.value === resultOf(scenario);
    const needed = scenario.steps.map((_, index) =>
      resultOf({ ...scenario, steps: scenario.steps.slice(0, index + 1) }),
    );
    const computed = new Set(rollout.calls.map(outcome));
    const steps = needed.filter((value) => computed.has(value)).length / needed.length;
    const needless = Math.max(0, rollout.turns - scenario.steps.length - 1) / rollout.maxTurns;
    return {
      reward: right ? 1 - 0.1 * needless : 0.3 * steps,
      success: right,
      parts: { right: right ? 1 : 0, steps },
    };
  },

  /** Computes step by step; the mistake it can make is to forget the last step. */
  *expert(scenario, random, { mistakes = 0 }) {
    const share = typeof mistakes === "number" ? mistakes : (mistakes.forgets_last_step ?? 0);
    const steps = random.chance(share) ? scenario.steps.slice(0, -1) : scenario.steps;
    let value = scenario.start;
    for (const { operator, by } of steps) {
      const [record] = yield [{ name: "calculate", arguments: { operator, a: value, b: by } }];
      value = outcome(record) ?? value;
    }
    yield [{ name: "answer", arguments: { value } }];
  },
});

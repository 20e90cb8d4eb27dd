/** A small task for tests of the rollout loop: add up to a target with a tool, then answer. */
import { z } from "zod";
import { defineTask, defineTool, type Scenario, type Task, ToolError } from "../../src/core/task/task.js";

export interface CountingScenario extends Scenario {
  readonly target: number;
}

const add = defineTool({
  name: "add",
  description: "Add two numbers.",
  parameters: z.object({ a: z.number().describe("first"), b: z.number() }),
  execute: ({ a, b }) => {
    if (a < 0) throw new ToolError("a must not be negative");
    return { sum: a + b };
  },
});

const misbehave = defineTool({
  name: "misbehave",
  description: "Do something a tool should not do.",
  parameters: z.object({ how: z.enum(["throw", "hang", "nap", "huge", "circular", "nothing"]) }),
  execute: ({ how }) => {
    if (how === "throw") throw new Error("disk on fire");
    if (how === "hang") return new Promise(() => undefined);
    if (how === "nap") return new Promise((resolve) => setTimeout(() => resolve("awake"), 200));
    if (how === "huge") return "x".repeat(10_000_000);
    if (how === "nothing") return undefined;
    const ring: Record<string, unknown> = {};
    ring.ring = ring;
    return ring;
  },
});

const answer = defineTool({
  name: "answer",
  description: "Give the answer.",
  parameters: z.object({ value: z.number() }),
  final: true,
  execute: () => "ok",
});

export const countingTask: Task<CountingScenario> = defineTask<CountingScenario, unknown>({
  name: "counting",
  scenarios: () =>
    [1, 2, 3].map((n) => ({ id: `c${n}`, split: "test", question: `What is ${n} + ${n}?`, target: 2 * n })),
  prompt: (scenario, { maxTurns }) => [
    { role: "system", content: `You add numbers in at most ${maxTurns} turns.` },
    { role: "user", content: scenario.question },
  ],
  tools: [add, misbehave, answer],
  reward: (rollout, scenario) => {
    const success = rollout.answer?.value === scenario.target;
    return { reward: success ? 1 : 0, success, parts: { right: success ? 1 : 0 } };
  },
  *expert(scenario) {
    const [sum] = yield [{ name: "add", arguments: { a: scenario.target / 2, b: scenario.target / 2 } }];
    yield [{ name: "answer", arguments: { value: (sum as { result: { sum: number } }).result.sum } }];
  },
});

/**
 * An agent in Python that is trained: agent.py plays, this file has the scenarios and the reward. It may be in any
 * language: it speaks OpenAI's API to the address in OPENAI_BASE_URL, with the key in OPENAI_API_KEY.
 *
 *     yarn rollout --task examples/python-agent/task.ts --model qwen2.5-0.5b --n 4 --show
 *     yarn train --task examples/python-agent/task.ts --model qwen2.5-0.5b
 */
import { join } from "node:path";
import { defineTask, Random, type Scenario, z } from "@hone-rl/hone";

interface Shop extends Scenario {
  readonly stock: Readonly<Record<string, number>>;
  readonly asked: readonly string[];
}

const goods = ["apples", "pears", "plums", "cherries", "grapes", "figs", "limes", "dates"];

const options = z.object({
  python: z.string().default("python3").describe("the Python that runs agent.py; it needs no packages"),
  scenarios: z.int().min(10).max(10_000).default(100).describe("shops, a fifth of them for tests"),
});

export default defineTask<Shop, { readonly python: string }, typeof options>({
  name: "python-agent",
  description: "Count what a shop has, with an agent in Python",
  options,
  scenarios: ({ seed, scenarios }) =>
    Array.from({ length: scenarios }, (_, index) => {
      const random = new Random("shop", seed, index);
      const asked = random.sample(goods, 2);
      return {
        id: `shop-${index}`,
        split: index % 5 === 0 ? "test" : "train",
        question: `How many ${asked.join(" and ")} are there together?`,
        stock: Object.fromEntries(goods.map((name) => [name, random.integer(1, 40)])),
        asked,
      };
    }),
  open: ({ python }) => ({ python }),

  /** 1 for the right sum, 0.2 for each of the two that it looked up. */
  rollout: async ({ scenario, env, run }) => {
    const agent = join(import.meta.dirname, "agent.py");
    const { stdout } = await run(env.python, [agent], { input: JSON.stringify(scenario) });
    const { answer, looked_up: lookedUp } = JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as {
      answer: number | null;
      looked_up: string[];
    };
    const found = scenario.asked.filter((name) => lookedUp.includes(name)).length;
    const right = found === 2 && answer === scenario.asked.reduce((sum, name) => sum + (scenario.stock[name] ?? 0), 0);
    return { reward: right ? 1 : 0.2 * found, success: right, parts: { found: found / 2 } };
  },
});

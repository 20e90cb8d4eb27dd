/**
 * An environment of verifiers (https://github.com/PrimeIntellect-ai/verifiers) that is trained by its own command: `vf-eval` plays
 * one task of shout.py with the rollout's model, and the reward is read from the trace that it writes.
 *
 *     uv venv env && uv pip install --python env verifiers uv
 *     yarn rollout --task examples/verifiers/task.ts --set bin=env/bin --model qwen2.5-0.5b --n 4 --show
 *     yarn train --task examples/verifiers/task.ts --set bin=env/bin --model qwen2.5-0.5b
 *
 * Another environment that is installed there: --set id=NAME, with the number of its tasks.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { defineTask, type Scenario, z } from "@hone-rl/hone";

interface VerifiersTask extends Scenario {
  /** Position in the environment's list. */
  readonly index: number;
}

/** What of a line of traces.jsonl is used. */
interface Episode {
  readonly traces: readonly {
    readonly errors?: readonly { readonly message: string }[];
    readonly rewards: Readonly<Record<string, { readonly score: number; readonly weight: number } | null>>;
  }[];
}

const options = z.object({
  bin: z.string().min(1).default("env/bin").meta({ path: true, description: "folder with vf-eval and uv" }),
  id: z.string().min(1).default("shout").describe("the environment: one installed there, or a module beside this file"),
  tasks: z.int().min(2).default(10).describe("its tasks, a fifth of them for tests"),
  harness: z
    .string()
    .min(1)
    .default("null")
    .describe("the program of verifiers that plays: null has the environment's tools alone"),
  solved: z.number().default(1).describe("reward from which on a task counts as solved"),
});

export default defineTask<VerifiersTask, z.output<typeof options>, typeof options, string>({
  name: "verifiers",
  description: "Play an environment of verifiers by its own command",
  options,
  scenarios: ({ id, tasks }) =>
    Array.from({ length: tasks }, (_, index) => ({
      id: `${id}-${index}`,
      split: index % 5 === 0 ? "test" : "train",
      question: `Task ${index} of the environment ${id}`,
      index,
    })),
  open: (given) => given,
  setUp: () => mkdtempSync(join(tmpdir(), "hone-verifiers-")),
  tearDown: ({ fixture }) => rmSync(fixture, { recursive: true, force: true }),

  rollout: async ({ scenario, env: { bin, id, harness, solved }, fixture: folder, baseUrl, run }) => {
    const args = {
      model: "hone",
      "client.base-url": baseUrl,
      "client.api-key-var": "OPENAI_API_KEY",
      "env.agent.harness.id": harness,
      // On this machine, not in a sandbox of Prime Intellect's.
      "env.agent.runtime.type": "subprocess",
      "select.include.idx": String(scenario.index),
      "output-dir": folder,
      "run.name": "run",
    };
    const flags = Object.entries(args).flatMap(([name, value]) => [`--${name}`, value]);
    const path = `${bin}${delimiter}${process.env.PATH}`;
    await run(join(bin, "vf-eval"), [id, ...flags, "--no-push", "--no-rich"], {
      env: { PATH: path, PYTHONPATH: import.meta.dirname },
    });
    const [line = ""] = readFileSync(join(folder, "run/traces.jsonl"), "utf8").split("\n");
    const { traces } = JSON.parse(line) as Episode;
    const [trace] = traces;
    const error = trace?.errors?.[0];
    if (!trace || error) throw new Error(`vf-eval: ${error?.message ?? "it has written no trace"}`);
    const parts = Object.entries(trace.rewards).flatMap(([name, reward]) => (reward ? [[name, reward] as const] : []));
    const reward = parts.reduce((sum, [, { score, weight }]) => sum + score * weight, 0);
    return {
      reward,
      success: reward >= solved,
      parts: Object.fromEntries(parts.map(([name, { score }]) => [name, score])),
    };
  },
});

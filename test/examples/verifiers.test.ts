/** The example of a verifiers environment: what `vf-eval` is asked to play, and what its trace is worth. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { AgentContext, ProgramOptions } from "../../src/core/task/agent.js";
import type { Reward } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadTask } from "../../src/scenarios/load.js";

/** As verifiers 0.4.0 writes them; the other fields are left out. */
const scored = (right: number) => ({
  traces: [
    { errors: [], rewards: { right: { score: right, weight: 1 }, brief: { score: 1, weight: 0.1 }, unscored: null } },
  ],
});
const failed = { traces: [{ errors: [{ type: "ProviderError", message: "the endpoint is gone" }], rewards: {} }] };

interface Asked {
  readonly command: string;
  readonly args: readonly string[];
  readonly options: ProgramOptions | undefined;
}

async function play(episode: object): Promise<Asked & { readonly reward: Reward }> {
  const task = await loadTask(join(packageRoot, "examples/verifiers/task.ts"));
  const [, scenario] = await task.scenarios({});
  let asked: Asked | undefined;
  const context = {
    scenario,
    env: await task.open({ bin: "/opt/env/bin" }),
    baseUrl: "http://127.0.0.1:1/v1",
    run: async (command: string, args: readonly string[] = [], options?: ProgramOptions) => {
      asked = { command, args, options };
      const folder = join(
        args[args.indexOf("--output-dir") + 1] as string,
        args[args.indexOf("--run.name") + 1] as string,
      );
      mkdirSync(folder);
      writeFileSync(join(folder, "traces.jsonl"), `${JSON.stringify(episode)}\n`);
      return { stdout: "", stderr: "" };
    },
  } as unknown as AgentContext;
  const fixture = await task.setUp?.(context);
  try {
    const reward = (await task.rollout?.({ ...context, fixture })) as Reward;
    return { ...(asked as Asked), reward };
  } finally {
    await task.tearDown?.({ ...context, fixture });
  }
}

it("plays the scenario's task of the environment by its command, with the rollout's model", async () => {
  const { command, args, options, reward } = await play(scored(1));
  expect(command).toBe("/opt/env/bin/vf-eval");
  expect(args[0]).toBe("shout");
  const flags = args.join(" ");
  expect(flags).toContain("--client.base-url http://127.0.0.1:1/v1 --client.api-key-var OPENAI_API_KEY");
  expect(flags).toContain("--select.include.idx 1 ");
  expect(options?.env?.PYTHONPATH).toBe(join(packageRoot, "examples/verifiers"));
  expect(reward).toEqual({ reward: 1.1, success: true, parts: { right: 1, brief: 1 } });
});

it("pays what the environment's rewards are worth, and fails with the trace's error", async () => {
  expect((await play(scored(0))).reward).toEqual({ reward: 0.1, success: false, parts: { right: 0, brief: 1 } });
  await expect(play(failed)).rejects.toThrow("vf-eval: the endpoint is gone");
});

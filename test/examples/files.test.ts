import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { McpServers } from "../../src/agent/mcp/servers.js";
import { withServers } from "../../src/agent/servers.js";
import { optionsOf, withDefaults } from "../../src/core/config/config.js";
import { opening, playRollout } from "../../src/core/rollout/rollout.js";
import type { AnyTask, Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask } from "../../src/scenarios/load.js";
import { temporary } from "../mcp/support/servers.js";

const file = join(packageRoot, "examples/files.ts");
let task: AnyTask;
let servers: McpServers;
let scenarios: readonly Scenario[];
beforeAll(async () => {
  task = await loadTask(file);
  scenarios = await task.scenarios({});
  const config = withDefaults(optionsOf("play"), {});
  const { servers: plan } = await withServers(config, task, file, temporary(), { log: () => undefined });
  servers = new McpServers(plan as NonNullable<typeof plan>, task);
});
afterAll(async () => {
  await servers.close();
});

async function play(scenario: Scenario, mistakes: number) {
  const own = await servers.begin(scenario.id, scenario);
  const session = new ExpertSession(own.task, scenario, new Random("expert", scenario.id), { mistakes });
  const limits = { maxTurns: 5, maxTokens: 1, turnSeconds: 60, toolSeconds: 60, rolloutSeconds: 120 } as const;
  const about = { scenario, session, env: undefined, signal: new AbortController().signal };
  const asked = {
    ...about,
    task: own.task,
    folder: own.folder,
    limits: { ...limits, onToolError: "observe" },
  } as const;
  return playRollout(asked).finally(() => own.end());
}

it("is solved by its expert, with the files of the scenario and no others", async () => {
  const [one, other] = scenarios as [Scenario, Scenario];
  const played = await Promise.all([play(one, 0), play(other, 0)]);
  expect(played.map(({ end, reward }) => [end, reward.success, reward.reward])).toEqual([
    ["answered", true, 1.2],
    ["answered", true, 1.2],
  ]);
  for (const [at, { calls }] of played.entries()) {
    const names = Object.keys((scenarios[at] as Scenario & { files: object }).files).sort();
    expect(
      String(calls[0]?.result)
        .match(/\S+\.txt/g)
        ?.sort(),
    ).toEqual(names);
  }
});

it("shows the model the server's two tools, in the words of the server", () => {
  const { tools } = opening(servers.task, scenarios[0] as Scenario, 5);
  expect(tools.map(({ function: { name } }) => name)).toEqual(["read_text_file", "list_directory"]);
  expect(tools[1]?.function).toMatchObject({
    description: expect.stringContaining("Get a detailed listing of all files and directories"),
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  });
});

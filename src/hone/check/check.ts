/** Plays a task with probes instead of a learning model, and reports what would make training useless. */

import { McpServers } from "../../agent/mcp/servers.js";
import type { Scenario } from "../../core/task/task.js";
import { Random } from "../../core/util/random.js";
import { scenariosOf } from "../../scenarios/load.js";
import { playByAgent } from "./agent.js";
import { nameFindings, scenarioFindings, toolFindings } from "./findings.js";
import { type Probed, probeScenario, probes } from "./probes.js";
import { SeenResults } from "./results.js";
import { failureFindings, rewardFindings } from "./rewards.js";
import { checkedServers, serverFindings } from "./servers.js";
import type { CheckSettings, Played } from "./settings.js";
import { countTokens } from "./tokens.js";

export type CheckResult = Awaited<ReturnType<typeof checkTask>>;

async function playByProbes(
  settings: CheckSettings,
  seen: SeenResults,
  servers: McpServers | undefined,
  scenarios: readonly Scenario[],
): Promise<Played> {
  const { task, signal } = settings;
  const env = await task.open(settings.taskOptions);
  const probed: Probed[] = [];
  try {
    for (const scenario of scenarios) {
      for (const probe of probes) {
        if (probe === "expert" && !task.expert) continue;
        probed.push(await probeScenario({ ...settings, env, servers }, scenario, probe));
      }
    }
  } finally {
    await task.close(env);
    await servers?.close();
  }
  signal.throwIfAborted();
  const { prompts, findings } = await countTokens(settings, scenarios, seen.longest);
  const ofProbes = [...failureFindings(probed), ...rewardFindings(probed)];
  return {
    played: probed.length,
    prompts,
    findings: [...toolFindings(task), ...seen.findings(), ...ofProbes, ...findings],
  };
}

/** @throws HoneError when the task cannot list its scenarios or open its environment */
export async function checkTask(settings: CheckSettings) {
  const { n, seed, servers: surveyed } = settings;
  const seen = new SeenResults(settings.task);
  const servers = surveyed && new McpServers(surveyed.plan, seen.task);
  const task = servers?.task ?? seen.task;
  const all = await scenariosOf(task, settings.taskOptions, settings.io);
  const ofSplit = (split: Scenario["split"]) => all.filter((scenario) => scenario.split === split);
  const chosen = (["train", "test"] as const).flatMap((split) => {
    const some = ofSplit(split);
    return some.length <= n ? some : new Random("check", seed, split).sample(some, n);
  });
  const { played, prompts, findings } = task.rollout
    ? await playByAgent(settings, chosen)
    : await playByProbes({ ...settings, task }, seen, servers, chosen);
  const found = [
    ...(surveyed ? serverFindings(surveyed) : []),
    ...nameFindings(task.name),
    ...scenarioFindings(all),
    ...findings,
  ];
  return {
    task: task.name,
    scenarios: { train: ofSplit("train").length, test: ofSplit("test").length },
    played,
    /** Tokens of the longest measured prompt; null without scenarios. */
    longest_prompt: prompts.length === 0 ? null : Math.max(...prompts),
    servers: surveyed ? checkedServers(surveyed) : [],
    findings: found.sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning")),
  };
}

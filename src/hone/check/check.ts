/** Plays a task with probes instead of a learning model, and reports what would make training useless. */

import type { Surveyed } from "../../agent/mcp/plan.js";
import { McpServers } from "../../agent/mcp/servers.js";
import { templateOf } from "../../chat/chat.js";
import { opening } from "../../core/rollout/rollout.js";
import type { Scenario, ScenarioIo } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { toJson } from "../../core/util/json.js";
import { Random } from "../../core/util/random.js";
import { loadEngine } from "../../engine/factory.js";
import { trainedContext } from "../../engine/models.js";
import { scenariosOf } from "../../scenarios/load.js";
import { type AgentCheck, agentFindings, playAgents } from "./agent.js";
import {
  type Finding,
  nameFindings,
  type Prompted,
  promptFindings,
  resultFindings,
  rewardFindings,
  scenarioFindings,
  toolFindings,
} from "./findings.js";
import { type Probed, probeScenario, probes } from "./probes.js";
import { SeenResults } from "./results.js";
import { checkedServers, serverFindings } from "./servers.js";

export interface CheckSettings extends Omit<AgentCheck, "reference" | "scenarios"> {
  /** As worker threads load it: for a task that its own code plays. */
  readonly reference?: string;
  /** Access for downloading scenarios from the Hub. */
  readonly io?: ScenarioIo;
  /** MCP servers whose tools the model gets in addition to the task's. */
  readonly servers?: Surveyed | undefined;
  /** Number of scenarios of each split to play, drawn by the seed. */
  readonly n: number;
}

export type CheckResult = Awaited<ReturnType<typeof checkTask>>;

/** What the findings of tokens need, counted with the model's own template and vocabulary. */
async function tokensOf(
  { task, maxTurns, model, context }: CheckSettings,
  scenarios: readonly Scenario[],
  longest: ReadonlyMap<string, string>,
) {
  const size = Math.min(context, await trainedContext(model));
  // Only the tokenizer is used, so the context is minimal.
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
  try {
    const template = templateOf(engine);
    const prompts = scenarios.flatMap((scenario): Prompted[] => {
      try {
        const { messages, tools } = opening(task, scenario, maxTurns);
        return [{ scenario, text: toJson(messages), tokens: template.prompt(messages, tools).length }];
      } catch {
        // A prompt that throws is reported by the probes.
        return [];
      }
    });
    const results = [...longest].map(([tool, text]) => ({
      tool,
      tokens: engine.tokenize(text, { special: false }).length,
    }));
    return { prompts, results, size };
  } finally {
    await engine.close();
  }
}

/** What is found by playing. */
interface Played {
  readonly played: number;
  /** Tokens of the prompts. */
  readonly prompts: readonly number[];
  readonly findings: readonly Finding[];
}

async function playByAgent(settings: CheckSettings, scenarios: readonly Scenario[]): Promise<Played> {
  const { task, reference, model } = settings;
  if (settings.servers)
    throw new UsageError(`the task ${task.name} is played by its own code, which has its own tools; leave --mcp out`);
  if (reference === undefined)
    throw new UsageError(`the task ${task.name} is played by its own code; give the path of its file`);
  const context = Math.min(settings.context, await trainedContext(model));
  const played = await playAgents({ ...settings, reference, context, scenarios });
  const { trajectories, failures } = played;
  return {
    played: trajectories.length + failures.length,
    prompts: trajectories.map(({ tokens }) => tokens?.sampled.indexOf(1) ?? 0),
    findings: agentFindings(played, context),
  };
}

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
  const { prompts, results, size } = await tokensOf(settings, scenarios, seen.longest);
  return {
    played: probed.length,
    prompts: prompts.map(({ tokens }) => tokens),
    findings: [
      ...toolFindings(task),
      ...seen.findings(),
      ...rewardFindings(probed),
      ...promptFindings(prompts, size),
      ...resultFindings(results, size),
    ],
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

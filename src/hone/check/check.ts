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
import { type CheckedServer, checkedServers, serverFindings } from "./servers.js";

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

export interface CheckResult {
  readonly task: string;
  readonly scenarios: { readonly train: number; readonly test: number };
  /** Number of rollouts played by probes. */
  readonly played: number;
  /** Tokens of the longest measured prompt; null without scenarios. */
  readonly longest_prompt: number | null;
  /** MCP servers and their tools. */
  readonly servers: readonly CheckedServer[];
  readonly findings: readonly Finding[];
}

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

async function checkAgent(
  settings: CheckSettings,
  all: readonly Scenario[],
  chosen: readonly Scenario[],
): Promise<CheckResult> {
  const { task, reference, model } = settings;
  if (settings.servers)
    throw new UsageError(`the task ${task.name} is played by its own code, which has its own tools; leave --mcp out`);
  if (reference === undefined)
    throw new UsageError(`the task ${task.name} is played by its own code; give the path of its file`);
  const context = Math.min(settings.context, await trainedContext(model));
  const played = await playAgents({ ...settings, reference, context, scenarios: chosen });
  const { trajectories, failures } = played;
  const prompts = trajectories.map(({ tokens }) => tokens?.sampled.indexOf(1) ?? 0);
  const of = (split: Scenario["split"]) => all.filter((scenario) => scenario.split === split).length;
  const findings = [...nameFindings(task.name), ...scenarioFindings(all), ...agentFindings(played, context)];
  return {
    task: task.name,
    scenarios: { train: of("train"), test: of("test") },
    played: trajectories.length + failures.length,
    longest_prompt: prompts.length === 0 ? null : Math.max(...prompts),
    servers: [],
    findings: findings.sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning")),
  };
}

/** @throws HoneError when the task cannot list its scenarios or open its environment */
export async function checkTask(settings: CheckSettings): Promise<CheckResult> {
  const { taskOptions, n, seed, signal, servers: surveyed } = settings;
  const seen = new SeenResults(settings.task);
  const servers = surveyed && new McpServers(surveyed.plan, seen.task);
  const task = servers?.task ?? seen.task;
  const all = await scenariosOf(task, taskOptions, settings.io);
  const ofSplit = (split: Scenario["split"]) => all.filter((scenario) => scenario.split === split);
  const chosen = (["train", "test"] as const).flatMap((split) => {
    const some = ofSplit(split);
    return some.length <= n ? some : new Random("check", seed, split).sample(some, n);
  });
  if (task.rollout) return checkAgent(settings, all, chosen);
  const env = await task.open(taskOptions);
  const probed: Probed[] = [];
  try {
    for (const scenario of chosen) {
      for (const probe of probes) {
        if (probe === "expert" && !task.expert) continue;
        probed.push(await probeScenario({ ...settings, task, env, servers }, scenario, probe));
      }
    }
  } finally {
    await task.close(env);
    await servers?.close();
  }
  signal.throwIfAborted();
  const { prompts, results, size } = await tokensOf({ ...settings, task }, chosen, seen.longest);
  const findings = [
    ...(surveyed ? serverFindings(surveyed) : []),
    ...nameFindings(task.name),
    ...scenarioFindings(all),
    ...toolFindings(task),
    ...seen.findings(),
    ...rewardFindings(probed),
    ...promptFindings(prompts, size),
    ...resultFindings(results, size),
  ];
  return {
    task: task.name,
    scenarios: { train: ofSplit("train").length, test: ofSplit("test").length },
    played: probed.length,
    longest_prompt: prompts.length === 0 ? null : Math.max(...prompts.map(({ tokens }) => tokens)),
    servers: surveyed ? checkedServers(surveyed) : [],
    findings: findings.sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning")),
  };
}

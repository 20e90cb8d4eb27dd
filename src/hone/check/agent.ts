/** A task that its own code plays: played with a small model, to find defects of the code; the model's words do not matter. */

import { MALFORMED } from "../../agent/ending.js";
import { gather } from "../../core/gather/gather.js";
import { callsIn, type Trajectory } from "../../core/rollout/trajectory.js";
import type { RolloutEnd, Scenario } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { loadEngine } from "../../engine/factory.js";
import { trainedContext } from "../../engine/models.js";
import { unknownToolsText } from "../../insight/report/unknown-tools.js";
import { error, type Finding, warning } from "./findings.js";
import type { CheckSettings, Played } from "./settings.js";

/** Tokens of a turn, and seconds of a rollout without its turns, at most. */
const LIMITS = {
  maxTokens: 256,
  turnSeconds: Number.POSITIVE_INFINITY,
  rolloutSeconds: 120,
  onToolError: "observe",
} as const;
const AT_ONCE = 2;

/** Ends of a rollout whose code ended with an error, but for those of hone's own limits; of code that returned, too. */
const MISTAKES: ReadonlySet<RolloutEnd> = new Set<RolloutEnd>(["bad_call", "token_limit", "model_mistake"]);

/** An error's reason is there, and its own. */
const isMistaken = ({ end, reason }: Pick<Trajectory, "end" | "reason">) =>
  MISTAKES.has(end) && reason !== undefined && !reason.startsWith(MALFORMED);

export async function playByAgent(settings: CheckSettings, scenarios: readonly Scenario[]): Promise<Played> {
  const { task, reference, taskOptions, servers, seed, maxTurns, toolSeconds, model, signal, onPlayed } = settings;
  if (servers)
    throw new UsageError(`the task ${task.name} is played by its own code, which has its own tools; leave --mcp out`);
  const context = Math.min(settings.context, await trainedContext(model));
  const options = { model, gpu: false, threads: 1, sequences: AT_ONCE, contextPerSequence: context } as const;
  const notes: string[] = [];
  let done = 0;
  const played = () => onPlayed?.(done++, scenarios.length);
  played();
  const engine = await loadEngine(options);
  try {
    const { groups, failures } = await gather({
      settings: {
        task: reference,
        taskOptions,
        player: { kind: "engine", engine: options, sampling: { temperature: 1 }, adapter: null },
        limits: { ...LIMITS, maxTurns, toolSeconds },
      },
      scenarios,
      groupSize: 1,
      seedName: seed,
      step: 0,
      concurrency: AT_ONCE,
      workers: 1,
      maxExceptions: Math.max(1, scenarios.length),
      signal,
      onNote: (text) => notes.push(text),
      onTrajectory: played,
      onFailure: played,
    });
    signal.throwIfAborted();
    const trajectories = groups.flat();
    return {
      played: trajectories.length + failures.length,
      prompts: trajectories.map(({ tokens }) => tokens?.sampled.indexOf(1) ?? 0),
      findings: agentFindings({ trajectories, failures, notes }, context),
    };
  } finally {
    await engine.close();
  }
}

interface PlayedByAgent {
  readonly trajectories: readonly Trajectory[];
  readonly failures: readonly { readonly id: string; readonly error: string }[];
  /** Of options that were refused or replaced. */
  readonly notes: readonly string[];
}

export function* agentFindings({ trajectories, failures, notes }: PlayedByAgent, context: number): Iterable<Finding> {
  const of = (some: readonly unknown[]) => `${some.length} of ${trajectories.length + failures.length} rollouts`;
  const [failed] = failures;
  if (failed) yield error("task_throws", `the agent failed in ${of(failures)} (${failed.id}): ${failed.error}`);
  const long = trajectories.filter(({ end }) => end === "context_limit");
  const noRoom = `in ${of(long)} the conversation left no room in a context of ${context} tokens`;
  if (long.length > 0) yield error("prompt_too_long", noRoom);
  const mistaken = trajectories.filter(isMistaken);
  const [one] = mistaken;
  const taken = `in ${of(mistaken)} an error of the agent is taken for a mistake of the model (${one?.id}): ${one?.reason}\nSuch rollouts are trained with ${one?.reward.reward}: see that it is no fault of the agent`;
  if (one) yield warning("model_mistake", taken);
  const others = unknownToolsText(trajectories);
  if (others !== undefined) yield warning("unknown_tools", others);
  const open = trajectories.filter(({ end }) => end === "open_call");
  // The code has sent no result of them back.
  const ends = open.flatMap((one) => callsIn(one).filter(({ outcome, result }) => outcome === "ok" && result === null));
  const names = [...new Set(ends.map(({ name }) => name))].join(", ");
  const last = `in ${of(open)} the model was not given the result of its last call, of ${names} (end open_call); if that call is the answer, name the tool in the task's finalTools`;
  if (ends.length > 0) yield warning("open_call", last);
  const rewritten = trajectories.reduce((sum, { agent }) => sum + (agent?.history_rewritten ?? 0), 0);
  const otherwise = `the agent sends back ${rewritten} turns otherwise than they were sampled, which begins new sequences: defaults and transforms in a tool's schema do that, and shortened messages`;
  if (rewritten > 0) yield warning("history_rewritten", otherwise);
  for (const note of notes) yield warning("option_refused", note);
  const [earned, ...different] = new Set(trajectories.map(({ reward }) => reward.reward));
  const constant = `every rollout of a small model earned ${earned}: only differences teach, so see that the model you train earns more now and then`;
  if (trajectories.length > 1 && different.length === 0) yield warning("reward_constant", constant);
}

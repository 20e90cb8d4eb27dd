/** A task that its own code plays: played with a small model, to find defects of the code; the model's words do not matter. */

import { MALFORMED } from "../../agent/ending.js";
import { gather } from "../../core/gather/gather.js";
import { callsIn, type Trajectory } from "../../core/rollout/trajectory.js";
import type { AnyTask, PlainOptions, RolloutEnd, Scenario } from "../../core/task/task.js";
import { loadEngine } from "../../engine/factory.js";
import { unknownToolsText } from "../../insight/report/unknown-tools.js";
import { error, type Finding, warning } from "./findings.js";

export interface AgentCheck {
  readonly task: AnyTask;
  /** As workers load it. */
  readonly reference: string;
  readonly taskOptions: PlainOptions;
  readonly scenarios: readonly Scenario[];
  readonly seed: number;
  readonly maxTurns: number;
  readonly toolSeconds: number;
  /** Model file; for a task that hone plays, its tokenizer and chat template measure the prompts. */
  readonly model: string;
  /** Tokens of a conversation. */
  readonly context: number;
  readonly signal: AbortSignal;
  /** Called at the start and after each rollout. */
  readonly onPlayed?: ((done: number, total: number) => void) | undefined;
}

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

export async function playAgents(check: AgentCheck) {
  const { reference, taskOptions, scenarios, seed, maxTurns, toolSeconds, model, context, signal } = check;
  const options = { model, gpu: false, threads: 1, sequences: AT_ONCE, contextPerSequence: context } as const;
  const notes: string[] = [];
  let done = 0;
  const played = () => check.onPlayed?.(done++, scenarios.length);
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
    // The notes are of options that were refused or replaced.
    return { trajectories: groups.flat(), failures, notes };
  } finally {
    await engine.close();
  }
}

export function agentFindings(
  { trajectories, failures, notes }: Awaited<ReturnType<typeof playAgents>>,
  context: number,
): Finding[] {
  const findings: Finding[] = [];
  const all = trajectories.length + failures.length;
  const [first] = failures;
  if (first) {
    const message = `the agent failed in ${failures.length} of ${all} rollouts (${first.id}): ${first.error}`;
    findings.push(error("task_throws", message));
  }
  const long = trajectories.filter(({ end }) => end === "context_limit");
  if (long.length > 0) {
    const message = `in ${long.length} of ${all} rollouts the conversation left no room in a context of ${context} tokens`;
    findings.push(error("prompt_too_long", message));
  }
  const mistaken = trajectories.filter(isMistaken);
  const [one] = mistaken;
  if (one) {
    const message = `in ${mistaken.length} of ${all} rollouts an error of the agent is taken for a mistake of the model (${one.id}): ${one.reason}\nSuch rollouts are trained with ${one.reward.reward}: see that it is no fault of the agent`;
    findings.push(warning("model_mistake", message));
  }
  const others = unknownToolsText(trajectories);
  if (others !== undefined) findings.push(warning("unknown_tools", others));
  const open = trajectories.filter(({ end }) => end === "open_call");
  // The code has sent no result of them back.
  const ends = open.flatMap((one) => callsIn(one).filter(({ outcome, result }) => outcome === "ok" && result === null));
  if (ends.length > 0) {
    const names = [...new Set(ends.map(({ name }) => name))].join(", ");
    const message = `in ${open.length} of ${all} rollouts the model was not given the result of its last call, of ${names} (end open_call); if that call is the answer, name the tool in the task's finalTools`;
    findings.push(warning("open_call", message));
  }
  const rewritten = trajectories.reduce((sum, { agent }) => sum + (agent?.history_rewritten ?? 0), 0);
  if (rewritten > 0) {
    const message = `the agent sends back ${rewritten} turns otherwise than they were sampled, which begins new sequences: defaults and transforms in a tool's schema do that, and shortened messages`;
    findings.push(warning("history_rewritten", message));
  }
  for (const message of notes) findings.push(warning("option_refused", message));
  const rewards = new Set(trajectories.map(({ reward }) => reward.reward));
  const [earned] = rewards;
  if (trajectories.length > 1 && rewards.size === 1) {
    const message = `every rollout of a small model earned ${earned}: only differences teach, so see that the model you train earns more now and then`;
    findings.push(warning("reward_constant", message));
  }
  return findings;
}

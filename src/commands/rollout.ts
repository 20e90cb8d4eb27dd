/** `yarn rollout`: plays scenarios and shows how it went. */
import { join } from "node:path";
import type { Config } from "../config.js";
import { conversationText } from "../report/conversation.js";
import { compact, ProgressLine } from "../report/progress-line.js";
import type { PlayerSpec } from "../rollout/players.js";
import { type PlaySummary, play } from "../run/play.js";
import { HoneError, UsageError } from "../util/errors.js";
import { defineCommand } from "./command.js";

/** Rollouts at once when nobody says. */
const CONCURRENCY = 16;

type PlayerOptions = Pick<
  Config,
  "expert" | "mistakes" | "agentUrl" | "agentModel" | "agentKey" | "temperature" | "maxTokens"
>;

function playerOf(config: PlayerOptions): PlayerSpec {
  if (config.expert) return { kind: "expert", mistakes: config.mistakes };
  if (config.agentUrl === undefined) throw new UsageError("rollout needs --model, --agent-url or --expert");
  if (config.agentModel === undefined) throw new UsageError("--agent-url needs --agent-model: the model's name there");
  const { agentUrl: url, agentModel: model, agentKey: key, temperature, maxTokens } = config;
  return { kind: "agent", settings: { url, model, key, temperature, maxTokens } };
}

function summaryText(summary: PlaySummary): string {
  const percent = (share: number | null) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
  const counts = (record: Record<string, number>) =>
    Object.entries(record)
      .map(([name, n]) => `${name} ${n}`)
      .join(", ") || "none";
  const { rollouts, groups, success, answered, reward, completion_tokens: tokens } = summary;
  return [
    `${rollouts} rollouts in ${groups} groups, ${summary.seconds.toFixed(1)} s${summary.interrupted ? " (interrupted)" : ""}`,
    `  success     ${percent(success)} of all (n=${rollouts}), answered ${answered}`,
    `  reward      ${reward === null ? "–" : compact(reward)} (n=${rollouts})`,
    `  tokens      ${tokens === null ? "–" : compact(tokens)} written a rollout, ${compact(summary.tokens_per_second)} a second`,
    `  ends        ${counts(summary.ends)}`,
    `  tool errors ${counts(summary.tool_errors)}`,
    ...(summary.failures.length > 0 ? [`  failed      ${summary.failures.length}: ${summary.failures[0]?.error}`] : []),
    `  written to  ${summary.trajectories}`,
  ].join("\n");
}

export const rolloutCommand = defineCommand({
  name: "rollout",
  summary: "Play scenarios and report how it went.",
  example: "yarn rollout --expert --n 1 --group 1 --show",
  options: [
    "task",
    "db",
    "home",
    "rank",
    "expert",
    "mistakes",
    "agentUrl",
    "agentModel",
    "agentKey",
    "scenario",
    "split",
    "n",
    "group",
    "seed",
    "temperature",
    "maxTurns",
    "maxTokens",
    "onToolError",
    "turnTimeout",
    "toolTimeout",
    "rolloutTimeout",
    "maxExceptions",
    "concurrency",
    "workers",
    "out",
    "show",
  ],
  async run(config, io) {
    const { home, db, rank } = config;
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    const progress = new ProgressLine(io.stream);
    const summary = await play({
      settings: {
        task: config.task,
        taskOptions: { home, db, rank },
        player: playerOf(config),
        limits: {
          maxTurns: config.maxTurns,
          maxTokens: config.maxTokens,
          turnSeconds: config.turnTimeout,
          toolSeconds: config.toolTimeout,
          rolloutSeconds: config.rolloutTimeout,
          onToolError: config.onToolError,
        },
      },
      choice: { split: config.split, scenario: config.scenario, n: config.n ?? 16, seed: config.seed },
      group: config.group,
      concurrency: config.concurrency ?? CONCURRENCY,
      workers: config.workers,
      maxExceptions: config.maxExceptions,
      out: config.out ?? join(home, "rollouts", `${stamp}.jsonl`),
      signal: io.signal,
      onProgress: (tally, total, trajectory) => {
        if (config.show) progress.say(conversationText(trajectory, io.stream.isTTY));
        progress.update(() => tally.line(total));
      },
      onFailure: ({ id, error }) => progress.say(`rollout ${id} failed: ${error}`),
    });
    progress.clear();
    io.say(summaryText(summary));
    if (summary.interrupted) {
      throw new HoneError(`interrupted; ${summary.rollouts} finished rollouts are in ${summary.trajectories}`);
    }
    return summary;
  },
});

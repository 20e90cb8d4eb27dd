/** `yarn rollout`: plays scenarios and prints the outcome. */
import { join } from "node:path";
import { serverLogs, withServers } from "../../agent/servers.js";
import { type Config, flagOf, type GivenOptions, givenOf } from "../../core/config/config.js";
import { isLocal } from "../../core/engine/engine.js";
import { countsText, kindsText, partsText } from "../../core/run/evaluation.js";
import { type PlainOptions, toolSchema } from "../../core/task/task.js";
import { UnfinishedError, UsageError } from "../../core/util/errors.js";
import { agentMistakesText } from "../../insight/report/agent-mistakes.js";
import { conversationText } from "../../insight/report/conversation.js";
import { compact } from "../../insight/report/progress-line.js";
import { unreadCalls } from "../../insight/report/unread-calls.js";
import { chooseScenarios, type RolloutsSummary, rolloutsToFile } from "../../insight/rollouts-file.js";
import { openPlayerFor } from "../../machine/play/choose-player.js";
import { limitsOf } from "../../machine/play/player-options.js";
import { loadTask, scenariosOf } from "../../scenarios/load.js";
import { givenForTask, recordedForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { defineCommand } from "../command.js";

/** Defaults: rollouts of a scenario, and tokens of a turn. */
const GROUP_SIZE = 4;
const MAX_TOKENS = 2048;

/** "deadline_turn 4; the first: turn 1 used up its 120 seconds (--turn-timeout)" */
function brokenOffText({ broken_off: causes, broken_off_reason: reason }: RolloutsSummary): string {
  return reason === null ? countsText(causes) : `${countsText(causes)}; the first: ${reason}`;
}

function summaryText(summary: RolloutsSummary, unread: string | undefined): string {
  const percent = (share: number | null) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
  const { rollouts, groups, success, answered, reward, completion_tokens: tokens } = summary;
  return [
    `${rollouts} rollouts in ${groups} groups, ${summary.seconds.toFixed(1)} s${summary.interrupted ? " (interrupted)" : ""}`,
    `  success     ${percent(success)} of all (n=${rollouts}), answered ${answered}`,
    ...(Object.keys(summary.kinds).length > 0 ? [`  solved      ${kindsText(summary.kinds)}`] : []),
    `  reward      ${reward === null ? "–" : compact(reward)} (n=${rollouts})`,
    ...(Object.keys(summary.parts).length > 0 ? [`  parts       ${partsText(summary.parts)}`] : []),
    `  tokens      ${tokens === null ? "–" : compact(tokens)} written a rollout, ${compact(summary.tokens_per_second)} a second`,
    `  ends        ${countsText(summary.ends) || "none"}`,
    ...(Object.keys(summary.broken_off).length > 0 ? [`  broken off  ${brokenOffText(summary)}`] : []),
    `  tool errors ${countsText(summary.tool_errors) || "none"}`,
    ...(unread === undefined ? [] : [`  calls       ${unread}`]),
    ...(Object.keys(summary.servers).length > 0 ? [`  MCP servers ${countsText(summary.servers)}`] : []),
    ...(Object.keys(summary.agent).length > 0 ? [`  agent       ${countsText(summary.agent)}`] : []),
    ...(summary.failures.length > 0 ? [`  failed      ${summary.failures.length}: ${summary.failures[0]?.error}`] : []),
    `  written to  ${summary.trajectories}`,
  ].join("\n");
}

/** With --checkpoint, the run's model and task are the defaults. */
async function withCheckpoint<C extends Pick<Config, "home" | "project" | "run">>(
  config: C,
  names: readonly string[],
  given: GivenOptions,
): Promise<C & { readonly ofRun: PlainOptions }> {
  const other = (["model", "adapter", "playerUrl", "expert"] as const).find((name) => given[name]);
  if (other) throw new UsageError(`--checkpoint and ${flagOf(other)} name different players; give one of them`);
  if (given.weights) {
    throw new UsageError(
      `--checkpoint and ${flagOf("weights")}: a checkpoint plays on the weights that its run has; leave ${flagOf("weights")} out`,
    );
  }
  const { optionsOfCheckpoint } = await import("../../machine/runs/checkpoint-choice.js");
  const { set, ...playing } = await optionsOfCheckpoint(config, names, given);
  return {
    ...config,
    ...playing,
    ofRun: set,
    ...givenOf(given, Object.keys(playing) as (keyof typeof playing)[]),
  };
}

export const rolloutCommand = defineCommand({
  name: "rollout",
  async run(asked, io) {
    const config = asked.checkpoint ? await withCheckpoint(asked, asked.checkpoint, io.given) : { ...asked, ofRun: {} };
    // Check the task before downloading a model.
    const task = await loadTask(config.task, config.taskTimeout);
    const taskOptions = taskOptionsOf(task, config, recordedForTask(task, config.ofRun), givenForTask(io.given));
    const { split, scenario, n = 16, seed } = config;
    const all = await scenariosOf(task, taskOptions, { hub: config, log: io.log, signal: io.signal });
    const scenarios = chooseScenarios(all, { split, scenario, n, seed });
    const { task: whole, servers } = await withServers(config, task, config.task, serverLogs(config.home), io);
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    const { spec, engine, concurrency } = await openPlayerFor(config, io.log, io.signal);
    const detokenize = engine && ((ids: number[]) => engine.detokenize(ids, { special: true }));
    try {
      const { rollouts, summary } = await rolloutsToFile({
        settings: {
          task: config.task,
          taskOptions,
          servers,
          player: spec,
          limits: limitsOf(
            { ...config, maxTokens: config.maxTokens ?? MAX_TOKENS },
            spec.kind === "engine" ? spec.engine : undefined,
          ),
        },
        scenarios,
        seedName: seed,
        groupSize: config.groupSize ?? GROUP_SIZE,
        concurrency,
        maxExceptions: config.maxExceptions,
        out: config.out ?? join(config.home, "rollouts", `${stamp}.jsonl`),
        signal: io.signal,
        onProgress: (tally, total, trajectory) => {
          if (config.show && trajectory) io.show(conversationText(trajectory, io.stream.isTTY, detokenize));
          io.progress.update(() => tally.line(total));
        },
        onFailure: ({ id, error }) => io.log(`rollout ${id} failed: ${error}`),
        onNote: io.log,
      });
      io.progress.clear();
      const shown = whole.tools.map((tool) => toolSchema(tool));
      io.log(summaryText(summary, unreadCalls(shown, rollouts).text));
      const mistaken = agentMistakesText(rollouts);
      if (mistaken !== undefined) io.log(mistaken);
      const result = {
        ...summary,
        prompt_tokens_evaluated: engine && isLocal(engine) ? engine.stats().prefilled : null,
      };
      if (summary.interrupted) {
        const message = `interrupted; ${summary.rollouts} finished rollouts are in ${summary.trajectories}`;
        throw new UnfinishedError(message, result);
      }
      return result;
    } finally {
      await engine?.close();
    }
  },
});

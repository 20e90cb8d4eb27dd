/** `yarn hone play`: a person plays one scenario by hand, at a prompt or from a pipe. */

import { McpServers } from "../../agent/mcp/servers.js";
import { serverLogs, withServers } from "../../agent/servers.js";
import { opening, playRollout } from "../../core/rollout/rollout.js";
import type { Scenario } from "../../core/task/task.js";
import { chooseScenarios } from "../../insight/rollouts-file.js";
import { loadTask, scenariosOf } from "../../scenarios/load.js";
import { givenForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { defineCommand } from "../command.js";
import { PersonSession } from "../play/person-session.js";
import { openTerminal } from "./terminal.js";

/** The reference solution, shown after play. */
function solution(scenario: Scenario): string[] {
  const { answer, message_ids: ids } = scenario as Scenario & { answer?: unknown; message_ids?: unknown };
  if (typeof answer !== "string") return [];
  return [`The answer is: ${answer}${Array.isArray(ids) ? ` (${ids.join(", ")})` : ""}`];
}

/** Deadline of a human player: one week. */
const PATIENCE = 7 * 86_400;

export const playCommand = defineCommand({
  name: "play",
  async run(config, io) {
    const { maxTurns, split, seed } = config;
    const plain = await loadTask(config.task, config.taskTimeout);
    const options = taskOptionsOf(plain, config, givenForTask(io.given));
    const all = await scenariosOf(plain, options, { hub: config, log: io.log, signal: io.signal });
    const [scenario] = chooseScenarios(all, { split, scenario: config.scenario, n: 1, seed }) as [Scenario];
    const { servers: plan } = await withServers(config, plain, config.task, serverLogs(config.home), io);
    const servers = plan && new McpServers(plan, plain);
    const own = await servers?.begin(scenario.id, scenario);
    const task = own?.task ?? plain;
    const env = await task.open(options);
    const terminal = openTerminal(io);
    try {
      io.log(`scenario ${scenario.id}`);
      const session = new PersonSession(opening(task, scenario, maxTurns), terminal);
      const limits = {
        maxTurns,
        maxTokens: 0,
        turnSeconds: PATIENCE,
        toolSeconds: config.toolTimeout,
        rolloutSeconds: PATIENCE,
        onToolError: "observe",
      } as const;
      const outcome = await playRollout({
        task,
        scenario,
        env,
        session,
        limits,
        signal: io.signal,
        folder: own?.folder,
      });
      const { reward, end, turns, answer } = outcome;
      const parts = Object.entries(reward.parts).map(([name, value]) => `${name} ${Number(value.toFixed(3))}`);
      const ending = end === "no_tool_call" ? "stopped" : end.replaceAll("_", " ");
      io.log(
        [
          `${reward.success ? "Solved" : "Not solved"}: ${ending} in turn ${turns}, reward ${Number(reward.reward.toFixed(3))}`,
          ...(parts.length > 0 ? [`  ${parts.join(", ")}`] : []),
          ...solution(scenario),
        ].join("\n"),
      );
      return { scenario: scenario.id, question: scenario.question, end, turns, answer: answer ?? null, ...reward };
    } finally {
      terminal.close();
      await task.close(env);
      own?.end();
      await servers?.close();
    }
  },
});

/** `yarn hone check`: finds defects of a task that would make training on it useless. */

import { surveyServers } from "../../agent/mcp/plan.js";
import { serverLogs } from "../../agent/servers.js";
import { CONTEXT, DEFAULT_MODEL } from "../../core/config/defaults.js";
import { UnfinishedError } from "../../core/util/errors.js";
import { bar } from "../../insight/report/progress-line.js";
import { resolveModel } from "../../machine/models/resolve.js";
import { loadTask } from "../../scenarios/load.js";
import { givenForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { type CheckResult, checkTask } from "../check/check.js";
import type { Finding } from "../check/findings.js";
import { type CheckedServer, checkServers } from "../check/servers.js";
import { defineCommand } from "../command.js";

function failOn(findings: readonly Finding[], where: string, result: object): void {
  const errors = findings.filter(({ level }) => level === "error").length;
  if (errors > 0)
    throw new UnfinishedError(`check: ${errors} ${errors === 1 ? "error" : "errors"} in ${where}`, result);
}

/** Default number of scenarios of each split that are played. */
const SCENARIOS = 16;

/** The same of a task that its own code plays, with a model. */
const PLAYED_BY_AGENTS = 2;

const findingLines = (findings: readonly Finding[]) =>
  findings.length === 0
    ? ["  nothing found"]
    : findings.map(({ level, message }) => `  ${level.padEnd(8)} ${message.replaceAll("\n", `\n${" ".repeat(11)}`)}`);

const serverLines = (servers: readonly CheckedServer[]) =>
  servers.flatMap(({ name, transport, version, tools }) => {
    const width = Math.max(0, ...tools.map((tool) => (tool.called ?? tool.name).length)) + 2;
    return [
      `MCP server ${name} (${transport}${version ? `, ${version}` : ""}): ${tools.length} tools`,
      ...tools.map((tool) => {
        const also = tool.called === null ? " (left out)" : tool.called === tool.name ? "" : ` (there ${tool.name})`;
        return `  ${(tool.called ?? tool.name).padEnd(width)}${tool.arguments.join(", ")}${also}`.trimEnd();
      }),
    ];
  });

function checkText({ task, scenarios, played, longest_prompt: longest, servers, findings }: CheckResult): string {
  return [
    ...serverLines(servers),
    `${task}: ${scenarios.train} train and ${scenarios.test} test scenarios, ${played} ${played === 1 ? "rollout" : "rollouts"} played${longest === null ? "" : `, longest prompt ${longest} tokens`}`,
    ...findingLines(findings),
  ].join("\n");
}

export const checkCommand = defineCommand({
  name: "check",
  positional: "task",
  async run(config, io) {
    const logs = serverLogs(config.home);
    if (config.mcp !== undefined && io.given.task === undefined) {
      const surveyed = await surveyServers(config, undefined, "", logs, io.signal);
      const found = surveyed ? checkServers(surveyed) : { servers: [], findings: [] };
      io.log([...serverLines(found.servers), ...findingLines(found.findings)].join("\n"));
      failOn(found.findings, config.mcp, found);
      return found;
    }
    const task = await loadTask(config.task, config.taskTimeout);
    const servers = await surveyServers(config, task, config.task, logs, io.signal);
    const result = await checkTask({
      task,
      reference: config.task,
      taskOptions: taskOptionsOf(task, config, givenForTask(io.given)),
      io: { hub: config, log: io.log, signal: io.signal },
      servers,
      n: config.n ?? (task.rollout ? PLAYED_BY_AGENTS : SCENARIOS),
      seed: config.seed,
      maxTurns: config.maxTurns,
      toolSeconds: config.toolTimeout,
      model: await resolveModel(config.model ?? DEFAULT_MODEL, config, io),
      context: config.context ?? CONTEXT,
      signal: io.signal,
      onPlayed: (done, total) => io.progress.update(() => `played ${bar(done / total, 20)} ${done}/${total} rollouts`),
    });
    io.log(checkText(result));
    failOn(result.findings, `the task ${task.name}`, result);
    return result;
  },
});

/** `yarn hone play`: a person plays one scenario by hand, at a prompt or from a pipe. */
import { createInterface } from "node:readline";
import { type CommandIo, defineCommand } from "../config/index.js";
import { mcpOptions, planServers, serverLogs, ToolServers } from "../mcp/index.js";
import { chooseScenarios, PersonSession, type Terminal } from "../play/index.js";
import { opening, playRollout } from "../rollout/index.js";
import { givenForTask, loadTask, type Scenario, scenariosOf, taskOptionNames, taskOptionsOf } from "../tasks/index.js";
import { HoneError } from "../util/index.js";

/** Lines of stdin, asked for one by one; typed ones can be edited. */
function openTerminal(io: CommandIo): Terminal & { close(): void } {
  const lines = createInterface({
    input: process.stdin,
    output: io.stream,
    prompt: "> ",
    terminal: process.stdin.isTTY === true && io.stream.isTTY === true,
  });
  // On a terminal readline takes Ctrl-C for itself.
  lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  io.signal.addEventListener("abort", () => lines.close(), { once: true });
  const iterator = lines[Symbol.asyncIterator]();
  return {
    async ask() {
      if (lines.terminal) lines.prompt();
      const { value, done } = await iterator.next();
      return done ? undefined : value;
    },
    say: (text) => io.say(text),
    close: () => lines.close(),
  };
}

/** What was asked for, for those who want to know afterwards. */
function solution(scenario: Scenario): string[] {
  const { answer, message_ids: ids } = scenario as Scenario & { answer?: unknown; message_ids?: unknown };
  if (typeof answer !== "string") return [];
  return [`The answer is: ${answer}${Array.isArray(ids) ? ` (${ids.join(", ")})` : ""}`];
}

/** A person may think for as long as they like. */
const PATIENCE = 7 * 86_400;

export const playCommand = defineCommand({
  name: "play",
  summary: "Play one scenario by hand: call the tools yourself and see the reward.",
  example: "yarn hone play --split train",
  options: [...taskOptionNames, ...mcpOptions, "scenario", "split", "maxTurns", "toolTimeout"],
  first: ["task", "set", "db", "mcp", "scenario", "split", "maxTurns", "seed"],
  async run(config, io) {
    const { maxTurns, split, seed } = config;
    const plain = await loadTask(config.task);
    const options = taskOptionsOf(plain, config, givenForTask(io.given));
    const [scenario] = chooseScenarios(await scenariosOf(plain, options), {
      split,
      scenario: config.scenario,
      n: 1,
      seed,
    });
    if (!scenario) throw new HoneError("there is no scenario to play");
    const plan = await planServers(config, plain, config.task, serverLogs(config.home), io);
    const servers = plan && new ToolServers(plan, plain);
    const own = await servers?.begin(scenario.id, scenario);
    const task = own?.task ?? plain;
    const world = await task.open(options);
    const terminal = openTerminal(io);
    try {
      io.say(`scenario ${scenario.id}`);
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
        world,
        session,
        limits,
        signal: io.signal,
        folder: own?.folder,
      });
      const { reward, end, turns, answer } = outcome;
      const parts = Object.entries(reward.parts).map(([name, value]) => `${name} ${Number(value.toFixed(3))}`);
      const ending = end === "no_tool_call" ? "stopped" : end.replaceAll("_", " ");
      io.say(
        [
          `${reward.success ? "Solved" : "Not solved"}: ${ending} in turn ${turns}, reward ${Number(reward.reward.toFixed(3))}`,
          ...(parts.length > 0 ? [`  ${parts.join(", ")}`] : []),
          ...solution(scenario),
        ].join("\n"),
      );
      return { scenario: scenario.id, question: scenario.question, end, turns, answer: answer ?? null, ...reward };
    } finally {
      terminal.close();
      await task.close(world);
      own?.end();
      await servers?.close();
    }
  },
});

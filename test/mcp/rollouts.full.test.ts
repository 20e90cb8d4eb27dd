import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { withServers } from "../../src/agent/servers.js";
import { type Gathered, gather } from "../../src/core/gather/gather.js";
import type { ServerPlan } from "../../src/core/task/servers.js";
import { loadTask } from "../../src/scenarios/load.js";
import { markOf, oddServer, processesWith, temporary, until } from "./support/servers.js";

const folder = temporary();
const logs = join(folder, "logs");

/** A task whose expert calls the tools that a scenario's question names, one a turn. Workers load it by its path. */
const taskWith = (name: string, servers: object, more: object = {}) => {
  const file = join(folder, `${name}.ts`);
  writeFileSync(
    file,
    `
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineTask } from "hone";

export default defineTask({
  name: "callers",
  scenarios: () => [],
  prompt: ({ question }) => [{ role: "user", content: question }],
  mcp: {
    servers: ${JSON.stringify(servers)},
    ...${JSON.stringify(more)},
    setup: (folder, { id }) => writeFileSync(join(folder, "who"), id),
  },
  reward: ({ folder }, { id }) => {
    const own = folder !== undefined && readFileSync(join(folder, "who"), "utf8") === id;
    return { reward: own ? 1 : 0, success: own, parts: {} };
  },
  *expert({ question }) {
    for (const name of question.split(" ")) yield [{ name, arguments: name === "big" ? { bytes: 100_000 } : {} }];
    yield "done";
  },
});
`,
  );
  return file;
};
const taskFile = taskWith("task", {});

const serversFile = (name: string, ...args: string[]) => {
  const file = join(folder, `${name}.json`);
  const mcpServers = { odd: { command: process.execPath, args: [oddServer, ...args] } };
  writeFileSync(file, JSON.stringify({ mcpServers }));
  return file;
};

const said: string[] = [];
async function plan(mcp: string | undefined, more: object = {}, task = taskFile): Promise<ServerPlan> {
  const unset = { mcpAllow: undefined, mcpDeny: undefined };
  const config = { mcp, ...unset, ...more };
  const { servers: planned } = await withServers(config, await loadTask(task), task, logs, {
    log: (line) => said.push(line),
  });
  return planned as ServerPlan;
}

const play = (
  servers: ServerPlan,
  questions: string[],
  { task = taskFile, toolSeconds = 300, concurrency = 4 } = {},
): Promise<Gathered> =>
  gather({
    settings: {
      task,
      taskOptions: {},
      servers,
      player: { kind: "expert", mistakes: 0 },
      limits: {
        maxTurns: 9,
        maxTokens: 10,
        turnSeconds: 60,
        toolSeconds,
        rolloutSeconds: 600,
        onToolError: "observe",
      },
    },
    scenarios: questions.map((question, index) => ({ id: `${index}`, split: "test", question })),
    groupSize: 1,
    seedName: "test",
    step: 0,
    concurrency,
    workers: 1,
  });
const resultsOf = ({ groups }: Gathered) => groups.map(([one]) => one?.calls.map(({ result }) => result));

it("gives each rollout servers of its own, and ends them with it", async () => {
  const played = await play(await plan(serversFile("own", "good", markOf("own"))), ["count count", "count", "count"]);
  expect(resultsOf(played)).toEqual([["call 1", "call 2"], ["call 1"], ["call 1"]]);
  expect(played.groups.every(([one]) => one?.end === "answered" && one.reward.success)).toBe(true);
  expect(processesWith(markOf("own"))).toEqual([]);
});

it("lets a thread's rollouts share a server, and starts it anew when it has died", async () => {
  const sharing = taskWith("sharing", {}, { scope: "worker" });
  const shared = await plan(serversFile("shared", "good", markOf("shared")), {}, sharing);
  const played = await play(shared, ["count", "count"], { task: sharing });
  expect(resultsOf(played).flat().sort()).toEqual(["call 1", "call 2"]);
  const [before, broken, after, later] = (
    await play(shared, ["count", "count die", "count", "count"], { task: sharing, concurrency: 1 })
  ).groups.map(([one]) => one);
  expect(before).toMatchObject({ end: "answered" });
  expect(broken).toMatchObject({ end: "tool_failure", servers: { server_died: 1 } });
  expect(after).toMatchObject({ end: "answered", servers: { server_restarted: 1 } });
  expect(after?.calls.map(({ result }) => result)).toEqual(["call 1"]);
  expect(later?.calls.map(({ result }) => result)).toEqual(["call 2"]);
  expect(processesWith(markOf("shared"))).toEqual([]);
});

it("costs a rollout of a server that dies its own end and nothing else, with the server's last words", async () => {
  const short = taskWith("short", {}, { resultChars: 10 });
  const servers = await plan(serversFile("dies"), {}, short);
  const played = await play(servers, ["die", "big picture", "refuse count"], { task: short });
  const [died, cut, refused] = played.groups.map(([one]) => one);
  expect(died).toMatchObject({ end: "tool_failure", servers: { server_died: 1 } });
  expect(died?.reason).toMatch(/the tool die failed: the MCP server odd ended with code 7; it wrote: out of paper/);
  expect(cut).toMatchObject({ end: "answered", servers: { result_cut: 2, binary_left_out: 1 } });
  expect(cut?.messages[2]?.content).toBe(`${"é".repeat(10)}\n[cut: these are the first 10 of 50,000 characters]`);
  expect(refused?.calls.map(({ outcome }) => outcome)).toEqual(["tool_error", "ok"]);
  expect(played.failures).toEqual([]);
});

it("counts lines on stdout that are no messages, at a server's start and in its calls", async () => {
  const { groups } = await play(await plan(serversFile("greets", "greeting")), ["count count"]);
  expect(groups[0]?.[0]).toMatchObject({ end: "answered", servers: { stray_output: 4 } });
});

it("ends a rollout whose server does not answer in the time of a tool", async () => {
  const { groups, failures } = await play(await plan(serversFile("hangs")), ["hang"], { toolSeconds: 2 });
  expect(groups[0]?.[0]).toMatchObject({ end: "tool_failure", servers: { call_timed_out: 1 } });
  expect(failures).toEqual([]);
});

it("finds out a server that has changed its tools", async () => {
  const file = serversFile("changing", "changing", join(folder, "changed"));
  const played = await play(await plan(file), ["count"]);
  const one = played.groups[0]?.[0];
  expect(one).toMatchObject({ end: "tool_failure", servers: { tools_changed: 1 } });
  expect(one?.reason).toMatch(/the MCP server odd describes its tool echo differently than before/);
});

it("knows no tool that was denied, and says so to the model", async () => {
  const servers = await plan(serversFile("denied"), { mcpDeny: ["odd/count"] });
  const [[result]] = resultsOf(await play(servers, ["count"])) as [[{ error: string }]];
  expect(result.error).toMatch(/no tool is called count/);
});

it("starts the task's own servers in the rollout's folder, which its reward sees and which is gone afterwards", async () => {
  const cwd = `$\{rolloutFolder}`;
  const own = { command: process.execPath, args: [oddServer, "good", "mark-cwd"], cwd };
  const task = taskWith("own", { own });
  const servers = await plan(serversFile("extra"), { mcpAllow: ["*/where"] }, task);
  expect(servers.tools.map(({ name }) => name)).toEqual(["own_where", "odd_where"]);
  const played = await play(servers, ["own_where", "own_where"], { task });
  expect(played.groups.map(([one]) => one?.reward.success)).toEqual([true, true]);
  const places = resultsOf(played).flat() as string[];
  expect(new Set(places).size).toBe(2);
  expect(places.filter(existsSync)).toEqual([]);
  const shared = taskWith("own-shared", { own }, { scope: "worker" });
  await expect(plan(undefined, {}, shared)).rejects.toThrow(/own has .*the scope "rollout" in the task's mcp/);
  await expect(plan(undefined, { mcpDeny: ["x"] })).rejects.toThrow(/--mcp-deny: there are no MCP servers/);
});

it("says in one line which server cannot be asked", async () => {
  await expect(plan(serversFile("crash", "crash"))).rejects.toThrow(
    /the MCP server odd ended with code 3; .*no licence/,
  );
  await expect(plan(serversFile("none"), { mcpAllow: ["nothing"] })).rejects.toThrow(/--mcp-allow nothing: no server/);
});

it("keeps what servers write to stderr, with the rollout they wrote it in", async () => {
  await until(() => existsSync(join(logs, "odd.log")));
  expect(readFileSync(join(logs, "odd.log"), "utf8")).toContain("[0/0] out of paper\n");
});

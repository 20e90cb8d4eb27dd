/** Environments of OpenEnv as tasks, with a server that speaks their protocol. The package's own: openenv.full.test.ts. */
import { afterEach, expect, it } from "vitest";
import { openEnv } from "../../src/agent/openenv/task.js";
import type { AnyTask } from "../../src/core/task/task.js";
import { loadTask } from "../../src/scenarios/load.js";
import { resolveTaskOptions } from "../../src/scenarios/task-options.js";
import { playEpisode } from "./support/openenv-playing.js";
import { type Fault, type OpenEnvServer, openEnvServer } from "./support/openenv-server.js";

const servers: OpenEnvServer[] = [];
async function served(given: Parameters<typeof openEnvServer>[0] = {}): Promise<OpenEnvServer> {
  const server = await openEnvServer(given);
  servers.push(server);
  return server;
}
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

const taskOf = ({ url }: OpenEnvServer, settings = {}) => openEnv(url, settings) as unknown as AnyTask;
const say = (number: number) => ["count_up", { number }] as const;

it("plays an episode by the tool of the environment's action, up to its end, for the sum of its rewards", async () => {
  const server = await served();
  const { reward, asked, lines } = await playEpisode(taskOf(server, { reset: { level: 2 } }), [
    ["I begin.", say(1)],
    [say(5)],
    [say(2), say(3)],
  ]);
  expect(reward).toEqual({ reward: 1.5, success: true, parts: {} });
  const [{ prompt, tools }] = asked as [(typeof asked)[number]];
  expect(prompt).toEqual([
    { role: "system", content: "Count up to the number that you are told." },
    { role: "user", content: [{ type: "text", text: "Count to 3." }] },
  ]);
  expect(tools).toMatchObject([{ name: "count_up", description: "Say the next number." }]);
  expect(tools?.[0]).toHaveProperty("inputSchema.properties", {
    number: { type: "integer", description: "the next number" },
  });
  // The turn is sent back as it was, or it would begin another sequence.
  const call = { type: "tool-call", toolCallId: "call-1", toolName: "count_up", input: { number: 1 } };
  expect(asked[1]?.prompt[2]).toEqual({ role: "assistant", content: [{ type: "text", text: "I begin." }, call] });
  expect(server.messages[0]).toEqual({ type: "reset", data: { level: 2, seed: 1 } });
  expect(lines).toEqual([
    'turn 1: count_up({"number":1}): reward 0.5',
    'turn 2: count_up({"number":5}): reward none',
    'turn 3: count_up({"number":2}): reward 0.5',
    'turn 3: count_up({"number":3}): reward 0.5, done',
  ]);
  await expect.poll(() => server.sessions()).toBe(0);
});

it("is solved where its rewards come to what was asked for, but for the rounding of their sum", async () => {
  const server = await served({ right: 0.7 });
  const play = (solved: number) => playEpisode(taskOf(server), [[say(1), say(2), say(3)]], { options: { solved } });
  const { reward } = await play(2.1);
  expect(reward.reward).toBeLessThan(2.1);
  expect(reward.success).toBe(true);
  expect((await play(2.1001)).reward.success).toBe(false);
});

it("takes the action of an environment whose class has the name of the package's own", async () => {
  const server = await served({ title: "Action" });
  const { reward, asked } = await playEpisode(taskOf(server), [[["action", { number: 1 }]]]);
  expect(reward.reward).toBe(0.5);
  expect(asked[0]?.tools).toMatchObject([{ name: "action", description: "Say the next number." }]);
});

it("calls the tools of an environment that has those of an MCP server through steps, which have rewards", async () => {
  const server = await served({ mcp: true });
  const { reward, asked } = await playEpisode(taskOf(server), [[say(100)], [say(1)]]);
  expect(reward).toEqual({ reward: 0.5, success: false, parts: {} });
  expect(asked[0]?.tools).toMatchObject([{ name: "count_up", description: "Count." }]);
  expect(server.messages[1]).toEqual({
    type: "step",
    data: { type: "call_tool", tool_name: "count.up", arguments: { number: 100 } },
  });
  expect(asked.map(({ prompt }) => prompt.at(-1)).slice(1)).toMatchObject([
    { role: "tool", content: [{ output: { value: '{"error":"out of numbers"}' } }] },
    { role: "tool", content: [{ output: { value: "Right." } }] },
  ]);
});

it("tells the model of calls that the schema or the environment refuses, and goes on", async () => {
  const server = await served();
  const turns = [
    [["count", { number: 1 }]],
    [["count_up", { number: "one" }]],
    [say(-1)],
    [say(1)],
    "I give up.",
  ] as const;
  const { reward, asked } = await playEpisode(taskOf(server, { solved: 0.5 }), turns);
  expect(reward).toMatchObject({ reward: 0.5, success: true });
  const read = asked.slice(1, 4).map(({ prompt }) => JSON.stringify(prompt.at(-1)));
  expect(read[0]).toContain("no tool is called count; there are count_up");
  expect(read[1]).toContain("number must be integer");
  expect(read[2]).toContain("number: must not be negative");
  // Calls that did not run are no steps.
  expect(server.messages.filter(({ type }) => type === "step")).toHaveLength(2);
});

it("gives an episode of each seed to its split, whatever else is asked for", async () => {
  const task = taskOf(await served(), { train: 3, test: 2 });
  const scenarios = await task.scenarios({ seed: 7 });
  expect(scenarios.map(({ id, split }) => `${split} ${id}`)).toEqual([
    ...["train seed-1", "train seed-2", "train seed-3", "test seed-1000001", "test seed-1000002"],
  ]);
});

it("waits for a session where the server has none left, and says so", async () => {
  const server = await served({ most: 1 });
  const task = taskOf(server);
  const one = { scenario: { seed: 1 }, env: await task.open({}), signal: new AbortController().signal };
  const lines: string[] = [];
  const context = { ...one, logger: { info: (line: string) => lines.push(line) } } as never;
  const first = await task.setUp?.(context);
  const waiting = task.setUp?.(context) as Promise<unknown>;
  await expect.poll(() => lines).toHaveLength(1);
  expect(lines[0]).toContain(`all 1 sessions of the OpenEnv server at ${server.url} are in use`);
  await task.tearDown?.({ ...(context as object), fixture: first } as never);
  await task.tearDown?.({ ...(context as object), fixture: await waiting } as never);
});

it.each<[Fault, RegExp]>([
  ["dies", /^the OpenEnv server at \S+ is gone: it closed the session \(code 1006\)$/],
  ["silent", /^the OpenEnv server at \S+ did not answer a step within 2 s$/],
  [
    "no observation",
    /^the OpenEnv server at \S+ answers a step with no observation: \{"type":"observation","data":\{"done":false\}\}$/,
  ],
  ["raises", /^the OpenEnv server at \S+ failed at a step: the world broke$/],
  ["invalid", /^the OpenEnv server at \S+ failed at a step: said: Input should be a valid string$/],
  ["no reward", /^the environment ended the episode without a reward of any step/],
])("fails the rollout in one line where a session has the fault: %s", async (fault, message) => {
  const server = await served();
  server.fault = fault;
  // Only the one that never answers is waited for.
  const task = taskOf(server, { seconds: fault === "silent" ? 2 : 60 });
  await expect(playEpisode(task, [[say(1), say(2), say(3)]])).rejects.toThrow(message);
  await expect.poll(() => server.sessions()).toBe(0);
});

it("ends with the rollout's signal, whatever the server does", async () => {
  const server = await served();
  server.fault = "silent";
  const over = new AbortController();
  const playing = playEpisode(taskOf(server), [[say(1)]], { signal: over.signal });
  await expect.poll(() => server.messages.at(-1)?.type).toBe("step");
  over.abort(new Error("the rollout's time is over"));
  await expect(playing).rejects.toThrow("the rollout's time is over");
});

it("says in one line, before anything is loaded, that a server is away or of another kind", async () => {
  const server = await served();
  const { url } = server;
  await expect(openEnv(`${url}/elsewhere`).scenarios({})).rejects.toThrow(
    /^http:\S+elsewhere is no OpenEnv server that can be used: \/schema answers 404, \{"detail":"Not Found"\}$/,
  );
  await server.close();
  servers.length = 0;
  await expect(openEnv(url).scenarios({})).rejects.toThrow(
    /^the OpenEnv server at http:\S+ does not answer \(connect ECONNREFUSED \S+\): start it, or give its address$/,
  );
});

it("is a task of the command line, whose server is an option", async () => {
  const task = await loadTask("openenv");
  expect(() => resolveTaskOptions(task, {})).toThrow("the task openenv needs --set url=TEXT");
  expect(() => resolveTaskOptions(task, { url: "localhost" })).toThrow("it must be the address of a server");
  const given = { url: "http://127.0.0.1:8000", reset: '{"level":2}' };
  expect(resolveTaskOptions(task, given)).toMatchObject({ reset: { level: 2 }, solved: 1, seconds: 60 });
});

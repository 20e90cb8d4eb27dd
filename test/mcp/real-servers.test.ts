import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { McpServers, type RolloutServers } from "../../src/agent/mcp/servers.js";
import { withServers } from "../../src/agent/servers.js";
import { runCall } from "../../src/core/rollout/calls.js";
import type { ServerPlan } from "../../src/core/task/servers.js";
import { type AnyTask, defineTask } from "../../src/core/task/task.js";
import { published, temporary, until } from "./support/servers.js";

const folder = temporary();
const inFolder = `$\{rolloutFolder}`;
const scenario = { id: "s", split: "test", question: "" } as const;
const task = defineTask({
  name: "servers",
  scenarios: () => [scenario],
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
}) as AnyTask;

const ended: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const end of ended) await end();
});

async function plan(mcpServers: object, more: object = {}): Promise<ServerPlan> {
  const mcp = join(folder, "servers.json");
  writeFileSync(mcp, JSON.stringify({ mcpServers }));
  const unset = { mcpAllow: undefined, mcpDeny: undefined };
  const config = { mcp, ...unset, ...more };
  const { servers } = await withServers(config, task, "task.ts", join(folder, "logs"), { log: () => undefined });
  return servers as ServerPlan;
}

async function rollouts(servers: ServerPlan, count: number): Promise<RolloutServers[]> {
  const host = new McpServers(servers, task);
  ended.push(() => host.close());
  const begun: RolloutServers[] = [];
  for (let n = 0; n < count; n++) begun.push(await host.begin(`s/${n}`, scenario));
  for (const one of begun) ended.unshift(async () => one.end());
  return begun;
}

/** A call as the model makes it: the outcome, and the text that the model reads. */
async function call(of: RolloutServers | undefined, name: string, args: Record<string, unknown> = {}) {
  const running = { task: of?.task as AnyTask, scenario, env: undefined, signal: new AbortController().signal };
  const limits = { maxTurns: 1, toolSeconds: 60 };
  const written = { kind: "call", call: { name, arguments: args } } as const;
  const { record, text } = await runCall(written, 1, { ...running, limits });
  return { outcome: record.outcome, text };
}

it("works with server-filesystem and server-memory, each rollout in a folder of its own", async () => {
  const servers = await plan({
    files: { command: process.execPath, args: [published("filesystem"), inFolder] },
    memory: {
      command: process.execPath,
      args: [published("memory")],
      env: { MEMORY_FILE_PATH: `${inFolder}/memory.json` },
    },
  });
  expect(servers.tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["write_file", "create_entities"]));
  const [one, other] = await rollouts(servers, 2);
  const path = join(one?.folder as string, "a.txt");
  expect(await call(one, "write_file", { path, content: "été\n" })).toMatchObject({ outcome: "ok" });
  expect(readFileSync(path, "utf8")).toBe("été\n");
  expect((await call(one, "read_text_file", { path })).text).toBe("été\n");
  // What the server refuses, and what does not fit its schema, the model reads; nobody else's folder is open to it.
  const outside = await call(other, "read_text_file", { path });
  expect(outside).toMatchObject({ outcome: "tool_error", text: expect.stringContaining("Access denied") });
  expect(await call(one, "write_file", { path })).toMatchObject({
    outcome: "bad_arguments",
    text: expect.stringContaining("must have required property 'content'; write_file takes path, content"),
  });
  const entities = [{ name: "Ada", entityType: "person", observations: ["wrote the first program"] }];
  expect((await call(one, "create_entities", { entities })).outcome).toBe("ok");
  expect((await call(one, "search_nodes", { query: "program" })).text).toContain("Ada");
  expect((await call(other, "search_nodes", { query: "program" })).text).not.toContain("Ada");
  one?.end();
  await until(() => !existsSync(one?.folder as string));
});

/** Texts of tools that server-everything has, over any transport. */
async function everything(of: RolloutServers | undefined): Promise<void> {
  expect((await call(of, "echo", { message: "hello" })).text).toBe("Echo: hello");
  expect((await call(of, "get-sum", { a: 2, b: 40 })).text).toContain("42");
  expect((await call(of, "get-sum", { a: "2", b: 40 })).outcome).toBe("bad_arguments");
  expect((await call(of, "get-tiny-image")).text).toMatch(/\[image image\/png, [\d,]+ bytes, left out/);
  expect((await call(of, "get-structured-content", { location: "Chicago" })).text).toContain("temperature");
  expect(of?.events()).toEqual({ binary_left_out: 1 });
}

it("works with server-everything over stdio", async () => {
  const servers = await plan({ all: { command: process.execPath, args: [published("everything")] } });
  // It runs only as a task of the protocol.
  expect(servers.tools.map(({ name }) => name)).not.toContain("simulate-research-query");
  const [one] = await rollouts(servers, 1);
  await everything(one);
});

it("works with server-everything over streamable HTTP, and says when it is gone", async () => {
  const probe = createServer().listen(0, "127.0.0.1");
  await until(() => probe.listening);
  const { port } = probe.address() as { port: number };
  await new Promise((done) => probe.close(done));
  mkdirSync(folder, { recursive: true });
  const server = spawn(process.execPath, [published("everything"), "streamableHttp"], {
    env: { ...process.env, PORT: String(port) },
    stdio: "ignore",
  });
  ended.push(async () => server.kill());
  const url = `http://127.0.0.1:${port}/mcp`;
  const answers = () =>
    fetch(url).then(
      () => true,
      () => false,
    );
  while (!(await answers())) await new Promise((done) => setTimeout(done, 50));
  const servers = await plan({ all: { type: "http", url } });
  const [one, other] = await rollouts(servers, 2);
  await everything(one);
  expect((await call(other, "echo", { message: "hello" })).text).toBe("Echo: hello");
  server.kill("SIGKILL");
  await new Promise((done) => server.once("exit", done));
  await expect(call(one, "echo", { message: "hello" })).rejects.toThrow(
    /the tool echo failed: the MCP server all failed at http:\/\/127.0.0.1:\d+\/mcp: /,
  );
  expect(one?.events()).toMatchObject({ server_died: 1 });
});

/** Environments on OpenEnv's own package, in a Python environment that the test makes: the example's, and one with an MCP server. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openEnv } from "../../src/agent/openenv/task.js";
import type { AnyTask } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { freePort } from "../support/free-port.js";
import { playEpisode } from "./support/openenv-playing.js";

const PACKAGE = "openenv==0.10.0";
/** What of its requirements a server uses. */
const REQUIRED = [
  ...["fastapi==0.165.0", "uvicorn==0.54.0", "websockets==17.4", "fastmcp==3.4.11", "huggingface_hub==2.4.0"],
  ...["requests==2.34.2", "httpx==0.28.1", "openai==3.57.0", "jsonschema==4.26.0"],
];

const folder = mkdtempSync(join(tmpdir(), "hone-openenv-"));
const python = join(folder, "bin/python");
const servers: ChildProcess[] = [];
beforeAll(() => {
  execFileSync("python3", ["-m", "venv", folder]);
  const install = ["-m", "pip", "install", "--quiet", "--no-compile"];
  const stdio = ["ignore", "ignore", "inherit"] as const;
  execFileSync(python, [...install, "--no-deps", PACKAGE], { stdio: [...stdio] });
  execFileSync(python, [...install, ...REQUIRED], { stdio: [...stdio] });
}, 900_000);
afterAll(async () => {
  for (const server of servers) {
    server.kill();
    if (server.exitCode === null) await once(server, "exit");
  }
  rmSync(folder, { recursive: true, force: true });
});

/** @returns the task of a server that answers */
async function served(program: string, args: (port: number) => string[], settings = {}): Promise<AnyTask> {
  const port = await freePort();
  const server = spawn(python, [join(packageRoot, program), ...args(port)], { stdio: "inherit" });
  servers.push(server);
  const task = openEnv(`http://127.0.0.1:${port}`, { train: 1, test: 1, ...settings }) as unknown as AnyTask;
  for (;;) {
    if (server.exitCode !== null) throw new Error(`${program} ended with code ${server.exitCode}`);
    const isThere = await Promise.resolve(task.scenarios({})).then(
      () => true,
      () => false,
    );
    if (isThere) return task;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

it("plays the example's episodes: the seed decides the number, guesses are rewarded, and the last one ends it", async () => {
  const task = await served("examples/openenv/server.py", (port) => ["--port", String(port)]);
  const guess = (number: number) => [["guess", { number }]] as const;
  const [first, again] = await Promise.all([
    playEpisode(task, [1, 2, 3, 4, 5, 6].map(guess)),
    playEpisode(task, [1, 2, 3, 4, 5, 6].map(guess)),
  ]);
  expect(first.reward).toMatchObject({ reward: 1 + 4 * 0.05 - (0.05 * (1 + 2 + 3 + 4)) / 20, success: true });
  expect(again.lines).toEqual(first.lines);
  expect(first.lines).toHaveLength(5);
  expect(first.lines.at(-1)).toBe('turn 5: guess({"number":5}): reward 1, done');
  const missed = await playEpisode(
    task,
    Array.from({ length: 7 }, () => guess(20)),
  );
  expect(missed.reward.success).toBe(false);
  expect(missed.lines.at(-1)).toMatch(/^turn 6: .*, done$/);
}, 300_000);

it("calls the tools of an environment's MCP server, of which the step that answers is rewarded", async () => {
  const task = await served("test/agent/support/openenv_mcp.py", (port) => [String(port)]);
  const { reward, asked } = await playEpisode(task, [
    [
      ["stock", { good: "apples" }],
      ["stock", { good: "figs" }],
    ],
    [["answer", { number: 7 }]],
  ]);
  expect(reward).toEqual({ reward: 1, success: true, parts: {} });
  expect(asked[0]?.prompt.at(-1)).toEqual({
    role: "user",
    content: [{ type: "text", text: "How many apples and pears are there?" }],
  });
  expect(asked[0]?.tools?.map(({ name }) => name)).toEqual(["stock", "answer"]);
  const read = asked[1]?.prompt.filter(({ role }) => role === "tool");
  expect(read).toMatchObject([
    { content: [{ output: { value: "3" } }] },
    { content: [{ output: { value: expect.stringContaining("Error calling tool 'stock'") } }] },
  ]);
}, 300_000);

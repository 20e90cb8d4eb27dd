/** Names and texts from outside reach the terminal without what it obeys: in lines, in errors, and in JSON. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { runHone } from "../models/support/cli.js";
import { HubServer } from "../support/hub-server.js";

const folder = mkdtempSync(join(tmpdir(), "hone-escapes-"));
let server: HubServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A window's title, a cleared screen in both forms of CSI, a bell, and a change of direction. */
const hostile = "\u001b]0;title\u0007\u001b[2J\u009b2J\u202eevil";
const plain = "]0;title[2J2Jevil";
const obeyed = /[^\P{Cc}\n\t]|\p{Bidi_Control}/u;

const task = join(folder, "task.ts");
const serverFile = join(folder, "server.mjs");

beforeAll(() => {
  mkdirSync(join(folder, "empty"));
  const text = JSON.stringify(hostile);
  writeFileSync(
    task,
    `import { defineTask, defineTool, z } from "@hone-rl/hone";
const text = ${text};
export default defineTask({
  name: "hostile",
  description: "Hostile",
  scenarios: () => ["train", "test"].map((split) => ({ id: split + text, split, question: text })),
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [
    defineTool({
      ...{ name: "look", description: text, parameters: z.object({}) },
      execute: () => ({ [text]: text }),
    }),
    defineTool({ name: "answer", description: text, parameters: z.object({}), final: true, execute: () => text }),
  ],
  reward: () => ({ reward: 0, success: false, parts: { [text]: 0 } }),
  *expert() {
    yield [{ name: "look", arguments: {} }];
    yield [{ name: "answer", arguments: {} }];
  },
});
`,
  );
});

async function hone(args: readonly string[], env: Record<string, string> = {}) {
  const ran = await runHone(folder, args, env);
  for (const text of [ran.stdout, ran.stderr]) expect(text).not.toMatch(obeyed);
  return ran;
}

it("ids of scenarios, errors of tools and what is said, as text and as JSON", async () => {
  const shown = await hone(["rollout", "--task", task, "--expert", "--n", "1", "--show", "--split", "train"]);
  expect(shown.stdout + shown.stderr).toContain(plain);
  const out = join(folder, "rollouts.jsonl");
  const json = await hone(["rollout", "--task", task, "--expert", "--n", "1", "--out", out, "--json"]);
  expect(json.status, json.stderr).toBe(0);
  const checked = await hone(["check", task]);
  expect(checked.stdout + checked.stderr).toContain("hostile");
});

it("an error that names what was given, a file's text, or what a file throws", async () => {
  for (const args of [
    ["rollout", "--task", task, "--model", `no${hostile}`],
    ["rollout", "--task", `no${hostile}`],
    ["train", `--no${hostile}`],
    [`no${hostile}`],
  ]) {
    const { status, stderr } = await hone(args);
    expect(status).not.toBe(0);
    expect(stderr).toContain("evil");
  }
  const thrower = join(folder, "thrower.ts");
  writeFileSync(thrower, `throw new Error(${JSON.stringify(hostile)});`);
  expect((await hone(["rollout", "--task", thrower])).stderr).toContain(plain);
  const { stdout } = await hone(["rollout", "--task", thrower, "--json"]);
  expect(JSON.parse(stdout).error).toContain(hostile);
});

it("names of files on the Hub", async () => {
  server = new HubServer({ "Org/Files": { [`${hostile}.gguf`]: Buffer.from("x"), "b.gguf": Buffer.from("x") } });
  await server.start();
  const { status, stderr } = await hone(["models", "pull", "Org/Files"], { HF_ENDPOINT: server.endpoint });
  expect([status, stderr]).toEqual([2, expect.stringContaining(`several GGUF files; give one of them: hf:Org/Files:`)]);
  expect(stderr).toContain(plain);
});

it("names of MCP servers' tools", async () => {
  writeFileSync(
    serverFile,
    `import { createInterface } from "node:readline";
const text = ${JSON.stringify(hostile)};
const tools = [{ name: text, description: text, inputSchema: { type: "object" } }];
console.error(text);
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method } = JSON.parse(line);
  const about = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: text, version: "1" } };
  const result = { initialize: about, "tools/list": { tools } }[method];
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: result ?? {} }));
}
`,
  );
  const file = join(folder, "mcp.json");
  writeFileSync(file, JSON.stringify({ mcpServers: { [hostile]: { command: process.execPath, args: [serverFile] } } }));
  const { stdout, stderr } = await hone(["check", task, "--mcp", file]);
  expect(stdout + stderr).toContain(plain);
});

it("is the program's own affair where it prints itself", () => {
  const program = join(folder, "program.mjs");
  writeFileSync(program, `console.log(${JSON.stringify(hostile)});`);
  const cli = join(packageRoot, "dist/src/cli.js");
  const { stdout } = spawnSync(process.execPath, [cli, "exec", program], { cwd: folder, encoding: "utf8" });
  expect(stdout).toBe(`${hostile}\n`);
});

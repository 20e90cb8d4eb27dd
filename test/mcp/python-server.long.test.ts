/** A server on MCP's own library for Python, in an environment that the test makes. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Connection } from "../../src/agent/mcp/connection.js";
import { resultText } from "../../src/agent/mcp/result.js";
import { ToolError } from "../../src/core/task/task.js";
import { temporary } from "./support/servers.js";

const folder = temporary();
const python = join(folder, "venv/bin/python");
let connection: Connection;
beforeAll(async () => {
  execFileSync("python3", ["-m", "venv", join(folder, "venv")]);
  execFileSync(python, ["-m", "pip", "install", "--quiet", "mcp==1.30.0"], { stdio: ["ignore", "ignore", "inherit"] });
  const args = [fileURLToPath(new URL("support/python_server.py", import.meta.url))];
  const server = { name: "abacus", kind: "stdio", command: python, args, env: {}, cwd: folder } as const;
  connection = await Connection.open({ server, logs: folder, label: "test", startSeconds: 60 });
}, 600_000);
afterAll(async () => {
  await connection?.close();
});

it("is listed, called, and corrected", async () => {
  const call = async (name: string, args: Record<string, unknown>) =>
    resultText(await connection.call(name, args, new AbortController().signal), 100, () => undefined);
  const tools = await connection.tools();
  expect(tools.map(({ name, description }) => [name, description])).toEqual([
    ["divide", "Divides a by b."],
    ["say", "Says words, also to stdout, which is the protocol's."],
  ]);
  expect(await call("divide", { a: 1, b: 4 })).toBe("0.25");
  await expect(call("divide", { a: 1, b: 0 })).rejects.toThrow(ToolError);
  await expect(call("divide", { a: 1, b: 0 })).rejects.toThrow(/division by zero/);
  expect(await call("say", { words: "ünicode" })).toBe("ünicode");
  expect(connection.takeStrayLines()).toBe(1);
  expect(readFileSync(join(folder, "abacus.log"), "utf8")).toContain("[test] to the log");
});

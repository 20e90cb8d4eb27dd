import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { markOf, oddServer, processesWith, temporary, until } from "./support/servers.js";

const folder = temporary();
const taskFile = join(folder, "task.ts");
writeFileSync(
  taskFile,
  `
import { defineTask } from "hone";
export default defineTask({
  name: "hanging",
  scenarios: () => [1, 2].map((n) => ({ id: String(n), split: "test", question: "?" })),
  prompt: () => [{ role: "user", content: "?" }],
  reward: () => ({ reward: 0, success: false, parts: {} }),
  *expert() {
    yield [{ name: "hang", arguments: {} }];
  },
});
`,
);

/** hone with rollouts that all hang in a tool of a server which heeds neither the end of its input nor SIGTERM. */
async function hanging(mark: string): Promise<ChildProcess> {
  const servers = join(folder, `${mark}.json`);
  const odd = { command: process.execPath, args: [oddServer, "deaf", mark] };
  writeFileSync(servers, JSON.stringify({ mcpServers: { odd } }));
  const more = ["--expert", "--group-size", "1", "--home", join(folder, "home")];
  const hone = spawn(process.execPath, ["dist/src/cli.js", "rollout", "--task", taskFile, "--mcp", servers, ...more], {
    stdio: "ignore",
  });
  // A server and its guardian for each rollout.
  await until(() => processesWith(`deaf ${mark}`).length >= 4);
  return hone;
}

it.each(["SIGKILL", "SIGINT"] as const)("leaves no server behind when hone gets %s", async (signal) => {
  const mark = markOf(signal);
  const hone = await hanging(mark);
  expect(hone.exitCode).toBeNull();
  hone.kill(signal);
  await new Promise((done) => hone.once("exit", done));
  await until(() => processesWith(`deaf ${mark}`).length === 0);
});

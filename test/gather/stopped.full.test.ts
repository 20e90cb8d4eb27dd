/** A process that is stopped and goes on, as by a laptop's lid: nothing that it waits for has hung. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-stopped-"));
const file = (name: string) => join(folder, name);
writeFileSync(
  file("task.ts"),
  `
import { existsSync } from "node:fs";
import { defineTask, defineTool } from "hone";
import { z } from "${import.meta.resolve("zod")}";

export default defineTask({
  name: "waiting",
  scenarios: () => [],
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [
    defineTool({
      name: "act",
      description: "Act.",
      parameters: z.object({}),
      final: true,
      execute: async () => {
        process.kill(process.pid, "SIGSTOP");
        const wait = () => new Promise((resolve) => setTimeout(resolve, 300));
        while (!existsSync(${JSON.stringify(file("go"))})) await wait();
        // All that was due meanwhile comes before this.
        await wait();
        return "done";
      },
    }),
  ],
  reward: () => ({ reward: 1, success: true, parts: {} }),
  *expert() {
    yield [{ name: "act", arguments: {} }];
  },
});
`,
);
afterAll(() => rmSync(folder, { recursive: true }));

const stateOf = (pid: number) => execFileSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).trim();

it("a rollout goes on when its process was stopped for longer than all of its limits", async () => {
  const script = join(packageRoot, "test/gather/stopped.mjs");
  const child = spawn(process.execPath, [script, file("task.ts")], {
    cwd: packageRoot,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.on("data", (text) => {
    said += text;
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  await expect.poll(() => stateOf(child.pid as number)).toMatch(/^T/);
  writeFileSync(file("go"), "");
  await sleep(8000);
  child.kill("SIGCONT");
  await ended;
  expect(said.trim()).toBe("[ 'answered' ]");
});

/** Code of a task that never ends, ends the process, or throws what is no error: one clear line each. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-task-code-"));
const cli = join(packageRoot, "dist/src/cli.js");

/** A task file: `top` is its second line, `about` its 13th, which replaces parts of the task. */
function taskFile(name: string, { top = "", about = "" }: { top?: string; about?: string }): string {
  const file = join(folder, `${name}.ts`);
  writeFileSync(
    file,
    `import { defineTask, defineTool, z } from "@hone-rl/hone";
${top}
export default defineTask({
  name: "${name}",
  scenarios: () => [
    { id: "one", split: "train", question: "1?" },
    { id: "two", split: "test", question: "2?" },
  ],
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [defineTool({ name: "answer", description: "Answer.", parameters: z.object({}), final: true, execute: () => "" })],
  reward: () => ({ reward: 1, success: true, parts: {} }),
  *expert() { yield [{ name: "answer", arguments: {} }]; },
  ${about}
});
`,
  );
  return file;
}

async function run(...args: string[]) {
  const child = spawn(process.execPath, [cli, ...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  return { status, stdout, stderr };
}

/** Seconds that the task's code has where it takes them all: enough to load the file on a busy machine. */
const LIMIT = "5";

const check = async (file: string, limit: string) => {
  const { status, stderr } = await run("check", file, "-n", "1", "--tool-timeout", limit, "--task-timeout", limit);
  return [status, stderr.replaceAll(folder, "")];
};
const forever = "new Promise(() => {})";
const late = "new Promise((end) => setTimeout(end, 1e8))";
const blocks = (what: string, where: string, option = "task") =>
  `hone: ${what} did not end within ${LIMIT} s; --${option}-timeout allows more (it blocks its thread at ${where})\n`;

describe.concurrent("a task's code", () => {
  it.each([
    ["endless-file", { top: "for (;;);" }, blocks("the task file /endless-file.ts", "/endless-file.ts:2")],
    [
      "late-file",
      { top: `await ${late};` },
      `hone: the task file /late-file.ts did not end within ${LIMIT} s; --task-timeout allows more\n`,
    ],
    [
      "stuck-file",
      { top: `await ${forever};` },
      "hone: the task file /stuck-file.ts never ends: it waits for a promise that nothing settles any more\n",
    ],
    [
      "exiting-file",
      { top: "process.exit(0);" },
      "hone: the task file /exiting-file.ts ended the process: its code calls process.exit(0)\n",
    ],
    [
      "null-file",
      { top: "throw null;" },
      "hone: the task file /null-file.ts could not be loaded: null was thrown, which is no Error\n",
    ],
    [
      "endless-scenarios",
      { about: `scenarios: async () => { await new Promise((end) => setTimeout(end, 50)); for (;;); },` },
      blocks("scenarios of the task endless-scenarios", "/endless-scenarios.ts:13"),
    ],
    [
      "stuck-scenarios",
      { about: `scenarios: () => ${forever},` },
      "hone: scenarios of the task stuck-scenarios never ends: it waits for a promise that nothing settles any more\n",
    ],
    [
      "careless-scenarios",
      {
        about: `scenarios: async () => { Promise.reject(new Error("token expired")); await new Promise((end) => setTimeout(end, 50)); return []; },`,
      },
      "hone: scenarios of the task careless-scenarios left an error that nothing caught: token expired\n",
    ],
    [
      "number-scenarios",
      { about: "scenarios: () => { throw 2; }," },
      "hone: the task number-scenarios could not list its scenarios: 2 was thrown, which is no Error\n",
    ],
    [
      "strange-scenarios",
      { about: `scenarios: () => [{ id: "one", split: "train", question: "?", n: 10n }],` },
      "hone: the scenario one of the task strange-scenarios is no plain data: n is a bigint; use strings, numbers, lists and objects\n",
    ],
    [
      "endless-open",
      { about: "open: () => { for (;;); }," },
      blocks("open of the task endless-open", "/endless-open.ts:13"),
    ],
    [
      "endless-prompt",
      { about: "prompt: () => { for (;;); }," },
      blocks("prompt of the task endless-prompt", "/endless-prompt.ts:13"),
    ],
    [
      "endless-reward",
      { about: "reward: () => { for (;;); }," },
      blocks("the reward of the task endless-reward", "/endless-reward.ts:13", "tool"),
    ],
  ])("%s is reported in one line", async (name, how, line) => {
    const isLong = /^(endless|late)-/.test(name);
    expect(await check(taskFile(name, how), isLong ? LIMIT : "60")).toEqual([1, line]);
  });

  it("that is reported while the process ends is in the output of --json too", async () => {
    const { status, stdout } = await run(
      "check",
      taskFile("exiting-open", { about: "open: () => process.exit(0)," }),
      "--json",
    );
    expect(status).toBe(1);
    expect(JSON.parse(stdout.trimEnd().split("\n").at(-1) as string)).toEqual({
      error: "open of the task exiting-open ended the process: its code calls process.exit(0)",
    });
  });

  it("does not keep the process alive when the command has ended", async () => {
    const file = taskFile("ticking", { top: "setInterval(() => undefined, 1000);" });
    const { status, stdout } = await run("rollout", "--task", file, "--expert", "--out", "ticking.jsonl");
    expect([status, stdout]).toEqual([0, expect.stringContaining("written to")]);
  });

  it("goes on after a tool that never returns, which does not block the thread", async () => {
    const tools = `tools: [defineTool({ name: "answer", description: "Answer.", parameters: z.object({}), execute: () => ${forever} })],`;
    // Longer than a thread that is blocked has after the tool's limit.
    const close = "close: () => new Promise((end) => setTimeout(end, 6000)),";
    const file = taskFile("lost-tool", { about: `${tools} ${close}` });
    const { status, stdout, stderr } = await run("check", file, "-n", "1", "--tool-timeout", "1");
    expect([status, stderr]).toEqual([1, "hone: check: 1 error in the task lost-tool\n"]);
    expect(stdout).toContain("8 rollouts played");
  });

  it("may take longer than the limit while it shows signs of progress", async () => {
    const slowly = `scenarios: async (options, { alive }) => {
      for (let i = 0; i < 4; i++) { await new Promise((end) => setTimeout(end, 2000)); alive(); }
      return [{ id: "one", split: "train", question: "?" }];
    },`;
    const file = taskFile("slow", { about: slowly });
    const { status } = await run("rollout", "--task", file, "--expert", "--out", "slow.jsonl", "--task-timeout", LIMIT);
    expect(status).toBe(0);
  });
});

import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { CommandLine } from "../support/command-line.js";

const folder = mkdtempSync(join(tmpdir(), "hone-rollout-"));
const cli = join(packageRoot, "dist/src/cli.js");
const arithmetic = ["--task", join(packageRoot, "examples/arithmetic.ts")];
const engine = ["--model", modelPath("qwen2-tiny-f16.gguf"), "--gpu", "off", "--threads", "1"];

const commandLine = new CommandLine();
const rollout = (...flags: string[]) => commandLine.run(folder, "rollout", ...flags);
afterAll(() => commandLine.close());

/** A task file. `about` fills in or replaces parts of the task. */
function taskFile(name: string, about: string): string {
  const file = join(folder, `${name}.ts`);
  writeFileSync(
    file,
    `import { defineTask, defineTool, z } from "hone";
const answer = defineTool({ name: "answer", description: "Answer.", parameters: z.object({}), final: true, execute: () => "" });
const tool = (execute) => defineTool({ name: "work", description: "Work.", parameters: z.object({}), execute });
export default defineTask({
  name: "${name}",
  scenarios: () => [{ id: "one", split: "train", question: "?" }],
  prompt: ({ question }) => [{ role: "user", content: question }],
  tools: [answer],
  reward: () => ({ reward: 0, success: false, parts: {} }),
  *expert() { yield [{ name: "work", arguments: {} }]; },
  ${about}
});
`,
  );
  return file;
}

/** A model whose template writes `<"name": ...}`, which is no format at all. */
function otherCalls(): string {
  const bytes = readFileSync(modelPath("llama-tiny-f16.gguf"));
  const at = bytes.indexOf(`'{"name": "' + tool_call.name`);
  if (at < 0) throw new Error("the template is not Llama's");
  bytes.write("<", at + 1);
  const file = join(folder, "other.gguf");
  writeFileSync(file, bytes);
  return file;
}

beforeAll(() => ensureTestModels(["tiny"], () => undefined));

it("says what is wrong with the task before a model is fetched", () => {
  const env = { ...process.env, HF_HUB_OFFLINE: "1" };
  const args = [cli, "rollout", "--model", "Org/Name", "--task", "nowhere.ts"];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8", env });
  expect([status, stderr]).toEqual([2, expect.stringMatching(/^hone: there is no task file .*nowhere\.ts/)]);
});

describe("--checkpoint", () => {
  it.each([
    ["--model", "tiny", "name different players; give one of them"],
    ["--adapter", "there.gguf", "name different players; give one of them"],
    ["--weights", "q8_0", ": a checkpoint plays on the weights that its run has; leave --weights out"],
  ])("is refused with %s, which its run says", async (flag, value, message) => {
    const { status, stderr } = await rollout(...arithmetic, "--checkpoint", "base", flag, value);
    expect([status, stderr]).toEqual([2, expect.stringMatching(new RegExp(`^hone: --checkpoint and ${flag}.*\n$`))]);
    expect(stderr).toContain(message);
  });
});

describe("a task's options", () => {
  const scenarioOf = async (...flags: string[]) => {
    const out = join(folder, "options.jsonl");
    const { status, stderr } = await rollout(...flags, "--expert", "--n", "1", "--group-size", "1", "--out", out);
    expect(status, stderr).toBe(0);
    return (JSON.parse(readFileSync(out, "utf8")) as { scenario: { id: string; steps: unknown[] } }).scenario;
  };

  it("reach it by --set, in the worker that plays too, and so does --seed", async () => {
    expect((await scenarioOf(...arithmetic, "--set", "steps=2", "--set", "scenarios=10")).steps).toHaveLength(2);
    expect((await scenarioOf(...arithmetic, "--seed", "8")).id).toMatch(/^sum-8-/);
    const about =
      "options: z.object({ word: z.string() }), open: ({ word, seed }) => [word, seed].join(' '), reward: (_, __, env) => { throw new Error(env); },";
    const { stderr } = await rollout(
      "--task",
      taskFile("worded", about),
      "--expert",
      "--set",
      "word=12",
      "--seed",
      "3",
    );
    expect(stderr).toContain("12 3");
  });

  it("are listed by --help with the task, and with the task alone", async () => {
    const { status, stdout } = await rollout(...arithmetic, "--help");
    expect(status).toBe(0);
    expect(stdout).toContain("Options of the task arithmetic:");
    expect(stdout).toMatch(/--set steps=2\.\.8 +the most steps that an expression takes \(default: 4\)/);
    expect((await rollout("--task", "email", "--help")).stdout).toMatch(/--set rank=date\|bm25/);
    expect((await rollout("--help")).stdout).not.toContain("Options of the task");
  });

  it("are the email task's --db and --rank too", async () => {
    const at = async (...flags: string[]) => (await rollout("--expert", ...flags)).stderr;
    const nowhere = await at("--db", "nowhere.db");
    expect(nowhere).toBe(await at("--set", "db=nowhere.db"));
    expect(nowhere).toMatch(/there is no .*nowhere\.db/);
    expect(await at("--set", "rank=best")).toMatch(/^hone: --set rank=best: .*"date"\|"bm25"/);
  });
});

it("ends well where nobody reads stderr", async () => {
  const flags = [...arithmetic, "--expert", "--n", "1", "--group-size", "1", "--json"];
  const child = spawn(process.execPath, [cli, "rollout", ...flags], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  child.stderr.destroy();
  child.stdout.resume();
  const [code] = await once(child, "close");
  expect(code).toBe(0);
});

describe("Ctrl-C", () => {
  it("leaves what is finished in the file and in the JSON", async () => {
    const out = join(folder, "interrupted.jsonl");
    const flags = [
      ...arithmetic,
      ...engine,
      "--n",
      "1000",
      "--group-size",
      "8",
      "--max-tokens",
      "400",
      "--out",
      out,
      "--json",
    ];
    const child: ChildProcessByStdio<null, Readable, Readable> = spawn(process.execPath, [cli, "rollout", ...flags], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const closed = once(child, "close");
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    while (child.exitCode === null && !(existsSync(out) && readFileSync(out, "utf8").includes("\n"))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    child.kill("SIGINT");
    const [code] = await closed;
    expect(code).toBe(1);
    expect(stderr.trimEnd().split("\n").at(-1)).toMatch(/^hone: interrupted; \d+ finished rollouts are in /);

    const lines = readFileSync(out, "utf8").trimEnd().split("\n");
    const result = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "") as Record<string, unknown>;
    expect(result).toMatchObject({ interrupted: true, rollouts: lines.length, trajectories: out });
    expect(result.error).toMatch(/^interrupted/);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ task: "arithmetic", end: expect.any(String) });
  });
});

describe("one line says what is wrong with", () => {
  const cases: [string, () => string[], RegExp][] = [
    ["a model that is not there", () => [...arithmetic, "--model", "no.gguf"], /--model: there is no file .*no\.gguf/],
    [
      "a file that is no model",
      () => [...arithmetic, "--model", join(packageRoot, "package.json")],
      /package\.json is not a GGUF model/,
    ],
    [
      "a model whose template writes calls in another format",
      () => [...arithmetic, "--model", otherCalls(), "--gpu", "off"],
      /the chat template of .* writes tool calls in no format that hone reads \(hermes, llama3, mistral, granite, pythonic, xlam, phi4, qwen3coder, lfm2, json\)/,
    ],
    [
      "a variable that the template does not have",
      () => [...arithmetic, ...engine, "--template-arg", "enable_thinking=false"],
      /--template-arg enable_thinking: the chat template of .* has no such variable/,
    ],
    [
      "a limit of thoughts that the template does not mark",
      () => [...arithmetic, ...engine, "--max-thinking-tokens", "5"],
      /--max-thinking-tokens: the chat template of .* has no marks of thoughts/,
    ],
    [
      "a tool format for a player that comes with its own",
      () => [...arithmetic, "--expert", "--tool-format", "llama3"],
      /--tool-format is for a model that plays with --model, not for --expert/,
    ],
    [
      "a context too small for the prompt",
      () => [...arithmetic, ...engine, "--context", "32", "--n", "1"],
      /the prompt of scenario .* has \d+ tokens, but a conversation has room for 32; raise --context/,
    ],
    [
      "an option that the task does not have",
      () => [...arithmetic, "--expert", "--set", "step=3"],
      /--set step=3: the task arithmetic has no such option; did you mean steps\?/,
    ],
    [
      "an option of another task",
      () => [...arithmetic, "--expert", "--db", "mail.db"],
      /--set db=mail\.db: the task arithmetic has no such option/,
    ],
    [
      "a task without scenarios",
      () => ["--task", taskFile("empty", "scenarios: () => [],"), "--expert"],
      /the task has no scenarios at all/,
    ],
    [
      "a task file that throws",
      () => {
        const file = join(folder, "throws.ts");
        writeFileSync(file, 'throw new Error("no such planet");\n');
        return ["--task", file, "--expert"];
      },
      /throws\.ts .*no such planet/,
    ],
    [
      "scenarios that cannot be read",
      () => ["--task", taskFile("broken", 'scenarios: () => { throw new Error("disk on fire"); },'), "--expert"],
      /disk on fire/,
    ],
    [
      "a prompt that throws",
      () => ["--task", taskFile("speechless", 'prompt: () => { throw new Error("no words"); },'), "--expert"],
      /no words/,
    ],
    [
      "a reward that throws",
      () => ["--task", taskFile("unjust", 'reward: () => { throw new Error("no justice"); },'), "--expert"],
      /no justice/,
    ],
    ["a database that is not there", () => ["--db", "nowhere.db", "--expert"], /there is no .*nowhere\.db/],
    [
      "a database that is none",
      () => {
        writeFileSync(join(folder, "text.db"), "this is no database, whatever its name says\n".repeat(100));
        return ["--db", "text.db", "--expert"];
      },
      /text\.db/,
    ],
  ];
  it.each(cases)("%s", async (_, flags, message) => {
    const { status, stderr } = await rollout(...flags());
    expect(status).toBeGreaterThan(0);
    const lines = stderr.split("\n").filter((line) => line.startsWith("hone: "));
    expect(lines, stderr).toHaveLength(1);
    expect(lines[0]).toMatch(message);
    expect(stderr).not.toMatch(/unexpected error|^\s+at /m);
  });
});

describe("a task without tools", () => {
  it("is played in plain text and with replies", async () => {
    const about = 'tools: [], reply: ({ turns }) => (turns < 2 ? "And?" : null), expert: undefined,';
    const out = join(folder, "plain.jsonl");
    const model = ["--model", modelPath("llama-tiny-f16.gguf"), "--gpu", "off", "--threads", "1"];
    const flags = [
      "--task",
      taskFile("plain", about),
      ...model,
      "--group-size",
      "2",
      "--max-tokens",
      "6",
      "--max-turns",
      "3",
    ];
    const { status, stdout, stderr } = await rollout(...flags, "--json", "--out", out);
    expect(status, stderr).toBe(0);
    const { ends, rollouts } = JSON.parse(stdout) as { ends: Record<string, number>; rollouts: number };
    expect(rollouts).toBe(2);
    for (const end of Object.keys(ends)) expect(["answered", "token_limit", "no_tool_call"]).toContain(end);
  });
});

describe("a tool that", () => {
  const result = async (...flags: string[]) => {
    const { status, stdout, stderr } = await rollout(
      ...flags,
      "--expert",
      "--group-size",
      "1",
      "--json",
      "--out",
      join(folder, "tool.jsonl"),
    );
    expect(status, stderr).toBe(0);
    const [line = ""] = readFileSync(join(folder, "tool.jsonl"), "utf8").split("\n");
    const { reason } = JSON.parse(line) as { reason?: string };
    return { ends: (JSON.parse(stdout) as { ends: object }).ends, reason, said: stderr };
  };

  it("hangs ends its rollout by name at its deadline", async () => {
    const task = taskFile("hanging", "tools: [answer, tool(() => new Promise(() => undefined))],");
    const { ends, reason, said } = await result("--task", task, "--tool-timeout", "0.3");
    expect(ends).toEqual({ tool_failure: 1 });
    expect(reason).toBe("the tool work did not return within 0.3 seconds");
    expect(said).toContain(`  broken off  tool_failure 1; the first: ${reason}\n`);
  });

  it("returns 10 MB ends its rollout by name", async () => {
    const task = taskFile("huge", 'tools: [answer, tool(() => "x".repeat(10_000_000))],');
    const { ends, reason } = await result("--task", task);
    expect(ends).toEqual({ tool_failure: 1 });
    expect(reason).toBe("the tool work returned 10.0 million characters; let it return at most 1 million");
  });
});

/** `yarn hone serve` and `yarn hone chat` as a user starts them. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type GivenOptions, withDefaults } from "../../src/core/config/config.js";
import { UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { serveCommand } from "../../src/hone/commands/serve.js";
import { ProgressLine } from "../../src/insight/report/progress-line.js";
import { writeTinyModel } from "../engine/tiny-model.js";
import { writeFalcon } from "../support/falcon-run.js";

const cli = join(packageRoot, "dist/src/cli.js");
const tiny = join(packageRoot, "models/tiny/tiny.gguf");
const home = mkdtempSync(join(tmpdir(), "hone-serve-command-"));
const machine = ["--gpu", "off", "--threads", "1", "--context", "512", "--concurrency", "2"];
const other = join(home, "other.gguf");
const children: ChildProcess[] = [];

beforeAll(async () => {
  writeTinyModel(other);
  await writeFalcon(home);
});
afterAll(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(home, { recursive: true, force: true });
});

const hone = (...args: string[]) =>
  spawnSync(process.execPath, [cli, ...args, "--home", home], { cwd: home, encoding: "utf8" });

/** Resolves when the server answers. */
async function serve(...args: string[]) {
  const child = spawn(process.execPath, [cli, "serve", ...args, ...machine, "--home", home], { cwd: home });
  children.push(child);
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const lines: string[] = [];
  let url = "";
  for await (const line of createInterface({ input: child.stdout })) {
    lines.push(line);
    url = /http:\/\/127\.0\.0\.1:\d+\/v1/.exec(line)?.[0] ?? "";
    if (url) break;
  }
  return { child, ended, lines, url };
}

test("serves a run's checkpoint under the run's name and its base beside it, until SIGTERM", async () => {
  const { child, ended, lines, url } = await serve("falcon", "--checkpoint", "3", "--port", "0", "--api-key", "k");
  expect(lines).toContain("model falcon: falcon: 3 (step 3)");
  expect(lines).toContain("model base: falcon: base");
  const client = new OpenAI({ baseURL: url, apiKey: "k", maxRetries: 0 });
  const { data } = await client.models.list();
  expect(data.map(({ id }) => id)).toEqual(["falcon", "base"]);
  const messages = [{ role: "user" as const, content: "Find the mail about Falcon" }];
  const say = async (model: string) => {
    const body = { model, messages, seed: 1, max_tokens: 12, logprobs: true };
    return (await client.chat.completions.create(body)).choices[0]?.logprobs?.content?.map(({ logprob }) => logprob);
  };
  const [trained, base] = await Promise.all([say("falcon"), say("base")]);
  expect(trained).not.toEqual(base);
  const port = new URL(url).port;
  const second = hone("serve", "--model", "tiny", ...machine, "--port", port);
  expect(second.status).toBe(1);
  expect(second.stderr).toBe(`hone: port ${port} is taken; give another --port, or 0 for any that is free\n`);
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
});

test("a run that is called base goes by its checkpoint's name beside its base", async () => {
  const copy = join(home, "mail/models/base");
  cpSync(join(home, "mail/models/falcon"), copy, { recursive: true });
  const { child, ended, lines } = await serve("mail/base", "--checkpoint", "3", "--port", "0");
  expect(lines.filter((line) => line.startsWith("model "))).toEqual([
    "model 3: base: 3 (step 3)",
    "model base: base: base",
  ]);
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
  rmSync(copy, { recursive: true });
});

test("a model's file has its name without the folder, and is found by its path too", async () => {
  const { child, ended, lines, url } = await serve("--model", tiny, "--port", "0");
  expect(lines).toContain(`model tiny, ${tiny}: ${tiny}`);
  const client = new OpenAI({ baseURL: url, apiKey: "none", maxRetries: 0 });
  expect((await client.models.list()).data.map(({ id }) => id)).toEqual(["tiny", tiny]);
  for (const model of ["tiny", tiny]) {
    const answer = await client.chat.completions.create({
      model,
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 1,
    });
    expect(answer.model).toBe("tiny");
  }
  child.kill("SIGTERM");
  expect(await ended).toBe(0);
});

test("names what cannot be served", async () => {
  const refused: [given: GivenOptions, why: RegExp][] = [
    [
      { subject: "nonsense" },
      /^nonsense is neither a run in .* \(mail\/falcon\) nor a model; `yarn hone models` lists/,
    ],
    [
      { subject: "falcon", checkpoint: ["9"] },
      /^--checkpoint 9: the run falcon has none; give one of latest, best, base, 3$/,
    ],
    [{ subject: "falcon", checkpoint: ["3", "base"] }, /one is served, with base beside it/],
    [{ subject: "falcon", adapter: "x" }, /^--adapter: a run's checkpoints have their own/],
    [{ subject: "tiny", checkpoint: ["best"] }, /^--checkpoint and --compare are for a run; tiny is a model$/],
    [{ subject: "mail/none", model: "tiny" }, /^there is no run mail\/none in /],
    [{ model: "tiny", context: 999_999 }, /the model was trained with \d+ tokens; give at most that/],
    [{ subject: "falcon", model: other }, /other\.gguf is not the model that the run falcon was trained from/],
  ];
  const signal = new AbortController().signal;
  const progress = new ProgressLine(process.stdout);
  for (const [given, why] of refused) {
    const config = withDefaults(serveCommand.options, { ...given, home });
    const io = { given, signal, stream: process.stdout, progress, log: () => undefined, show: () => undefined };
    const served = serveCommand.run(config as Parameters<typeof serveCommand.run>[0], io);
    await expect(served).rejects.toThrow(why);
    await expect(served).rejects.toBeInstanceOf(UsageError);
  }
});

test("chat talks to two checkpoints side by side, with the task's tools", () => {
  const task = ["--task", join(packageRoot, "examples/arithmetic.ts"), "--max-turns", "2", "--max-tokens", "40"];
  const args = ["chat", "falcon", "--compare", "base,3", ...task, ...machine.slice(0, 6), "--json", "--home", home];
  const input = "What is 1 + 1?\nAre you sure?\n";
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], {
    cwd: home,
    encoding: "utf8",
    input,
    env: { ...process.env, HONE_LEARNER: "peft" }, // of other commands: each model has one sequence here
  });
  expect(stderr).toContain("falcon: base\nfalcon: 3 (step 3)");
  expect(status).toBe(0);
  const { conversations } = JSON.parse(stdout) as {
    conversations: { name: string; messages: { role: string; content: string }[] }[];
  };
  expect(conversations.map(({ name }) => name)).toEqual(["base", "3"]);
  for (const { messages } of conversations) {
    expect(messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
      "What is 1 + 1?",
      "Are you sure?",
    ]);
    expect(messages.filter(({ role }) => role === "assistant").length).toBeGreaterThan(1);
  }
});

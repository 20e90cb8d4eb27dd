import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { Random } from "../../src/core/util/random.js";
import { CommandLine } from "../support/command-line.js";

const folder = mkdtempSync(join(tmpdir(), "hone-logprobs-"));
const model = modelPath("qwen2-tiny-f32.gguf");

function logprobs(tokens: unknown, ...flags: string[]) {
  const file = join(folder, "tokens.json");
  writeFileSync(file, typeof tokens === "string" ? tokens : JSON.stringify(tokens));
  return run("--model", model, "--tokens", file, ...flags);
}

const commandLine = new CommandLine();
afterAll(() => commandLine.close());
const run = (...flags: string[]) => commandLine.run(folder, "logprobs", "--gpu", "off", "--threads", "1", ...flags);

beforeAll(() => ensureTestModels(["tiny"], () => undefined));

describe("yarn hone logprobs", () => {
  const random = new Random("logprobs");
  const tokens = Array.from({ length: 100 }, () => random.integer(0, 200));

  it("shows a line for every token that is scored", async () => {
    const { status, stdout } = await logprobs(tokens.slice(0, 5));
    expect(status).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => Number(line.trim().split(/\s+/)[1]))).toEqual(tokens.slice(1, 5));
    for (const line of lines) expect(line).toMatch(/^\s*-\d+\.\d{5} +\d+ {2}".*"$/);
  });

  it.each([
    ["no JSON", "1 2 3", /holds no JSON array of token ids such as \[151644, 8948, 198\]: .*JSON/],
    ["no array", { ids: [1, 2] }, /holds no JSON array of token ids/],
    ["no ids", [1, "two", 3], /holds no JSON array of token ids.*: entry 1: /],
    ["a fraction", [1, 2.5], /holds no JSON array of token ids.*: entry 1: /],
    ["one id", [1], /holds no JSON array of token ids.*: the first that is scored is the second/],
    [
      "an id outside the vocabulary",
      [1, 999_999],
      /token 999999 of the score does not exist; the vocabulary has \d+ tokens/,
    ],
    ["more ids than the context has", Array(50_000).fill(1), /50000 token ids; the model was trained with \d+ at most/],
  ])("says in one line what is wrong with %s", async (_, ids, message) => {
    const { status, stdout, stderr } = await logprobs(ids);
    expect(status).toBe(1);
    expect(stdout).toBe("");
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it.each([
    [["--model", model, "--tokens", "nowhere.json"], /--tokens: there is no file .*nowhere\.json/],
    [["--model", "nowhere.gguf", "--tokens", "x"], /--model: there is no file .*nowhere\.gguf/],
    [["--model", model], /logprobs needs --tokens/],
  ])("says in one line what is missing: %j", async (flags, message) => {
    const { status, stderr } = await run(...flags);
    expect(status).toBe(2);
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });
});

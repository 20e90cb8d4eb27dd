/**
 * The whole way of a newcomer, on the built command line: from an empty home `train --model Org/Name` downloads from a
 * mirror, converts, plays and updates, and does so again without the mirror.
 */
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelShape } from "../../src/engine/models.js";
import { HubServer } from "../support/hub-server.js";
import { ensureLearnerPython } from "../support/python.js";
import { runHone, smallRun } from "./support/cli.js";

const home = mkdtempSync(join(tmpdir(), "hone-by-name-"));
const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts"), "--gpu", "off", "--threads", "1"];
const small = [...smallRun, "--context", "1024"];
const cached = join(home, ".cache/huggingface/hub/models--Org--Small-Instruct");
let python: string;
let server: HubServer;
let endpoint: string;

/** Runs the built command line in the empty home, as a user does who has a mirror. */
async function hone(args: readonly string[], env: Record<string, string> = {}) {
  return runHone(home, args, { HF_ENDPOINT: endpoint, HONE_PYTHON: python, ...env });
}

const converted = () => readdirSync(join(home, ".hone/gguf")).filter((name) => name !== ".lock");

beforeAll(async () => {
  python = await ensureLearnerPython();
  await ensureTestModels(["tiny", "published"], () => undefined);
  const folder = modelPath("qwen2.5-small");
  const files = Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  server = new HubServer({
    "Org/Small-Instruct": {
      ...files,
      "README.md": Buffer.from("---\nlicense: apache-2.0\n---\n"),
      ".gitattributes": Buffer.from("*"),
    },
    "Org/Small-Instruct-GGUF": { "small-f16.gguf": readFileSync(modelPath("qwen2-tiny-f16.gguf")) },
  });
  await server.start();
  endpoint = server.endpoint;
}, 900_000);
afterAll(async () => {
  await server.stop().catch(() => undefined);
  rmSync(home, { recursive: true, force: true });
});

test("train --model Org/Name downloads, converts, plays and updates; offline it goes on without a request", async () => {
  const online = await hone(["train", "--model", "Org/Small-Instruct", "--steps", "1", ...task, ...small]);
  expect(online.status, online.stderr).toBe(0);
  expect(online.stdout).toMatch(/downloading 11\.\d MB of Org\/Small-Instruct from http:\/\/127/);
  expect(online.stdout).toContain("converting Org/Small-Instruct to GGUF with f16 weights, once");
  expect(online.stdout).toMatch(/Small-Instruct: 1 step,/);
  expect(converted()).toEqual([expect.stringMatching(/^Org--Small-Instruct-f16-[0-9a-f]{12}\.gguf$/)]);
  // What nobody needs is not fetched.
  expect(server.requests.filter(({ path }) => /README|gitattributes/.test(path))).toEqual([]);
  const checkpoint = join(home, ".hone/vowels/models/Small-Instruct/checkpoints/0001/adapter.gguf");
  expect(existsSync(checkpoint)).toBe(true);

  await server.stop();
  const offline = { HF_HUB_OFFLINE: "1", HF_ENDPOINT: "http://127.0.0.1:1" };
  const again = await hone(["train", "--model", "Org/Small-Instruct", "--steps", "2", ...task, ...small], offline);
  expect(again.status, again.stderr).toBe(0);
  expect(again.stdout).toContain("going on after step 1 of 2");
  expect(again.stdout).not.toContain("converting");
  const figures = await hone(["eval", "--checkpoint", "base", "--n", "1", "--gpu", "off", "--threads", "1"], offline);
  expect(figures.status, figures.stderr).toBe(0);
  await server.start();
  endpoint = server.endpoint;
});

test("two processes at once convert a model once; what a killed one left is not taken", async () => {
  const [name = ""] = converted();
  const file = join(home, ".hone/gguf", name);
  const before = readFileSync(file);
  rmSync(file);
  writeFileSync(`${file}.99999999.part`, before.subarray(0, 1000));
  const pull = ["models", "pull", "Org/Small-Instruct"];
  const both = await Promise.all([hone(pull), hone(pull)]);
  expect(both.map(({ status }) => status)).toEqual([0, 0]);
  const said = both.map(({ stdout }) => stdout).join("");
  expect(said.match(/converting .* with f16 weights, once/g)).toHaveLength(1);
  expect(converted()).toEqual([name]);
  expect(readFileSync(file).equals(before)).toBe(true);
});

test.each(["bf16", "q8_0"])("--weights %s", async (weights) => {
  const { stdout, stderr } = await hone(["models", "pull", "Org/Small-Instruct", "--weights", weights, "--json"]);
  const { file } = JSON.parse(stdout);
  expect(file, stderr).toContain(`-${weights}-`);
  expect((await modelShape(file)).weightType.toLowerCase()).toBe(weights);
});

test("weights that changed on the disk after their download are not converted", async () => {
  const [snapshot = ""] = readdirSync(join(cached, "snapshots"));
  const file = join(cached, "snapshots", snapshot, "generation_config.json");
  const content = readFileSync(file);
  for (const name of converted()) if (name.includes("-f16-")) rmSync(join(home, ".hone/gguf", name));
  writeFileSync(file, `${content} `);
  const { status, stderr } = await hone(["models", "pull", "Org/Small-Instruct", "--weights", "f16"], {
    HF_HUB_OFFLINE: "1",
  });
  writeFileSync(file, content);
  expect([status, stderr]).toEqual([
    1,
    expect.stringMatching(
      /^hone: generation_config\.json of Org\/Small-Instruct is damaged \(wrong checksum\): `yarn hone models remove Org\/Small-Instruct`, then download it again/,
    ),
  ]);
});

test("a tokenizer that llama.cpp does not know is no model, and leaves nothing behind", async () => {
  const before = converted();
  const folder = join(home, "own-tokenizer");
  // Transformers reads it from this file; for Qwen2 it takes its own.
  cpSync(modelPath("llama-tiny"), folder, { recursive: true });
  const file = join(folder, "tokenizer.json");
  const tokenizer = JSON.parse(readFileSync(file, "utf8"));
  // Pieces of two digits, as no published model has them.
  const [split] = tokenizer.pre_tokenizer.pretokenizers;
  split.pattern.Regex = split.pattern.Regex.replace("{1,3}", "{1,2}");
  writeFileSync(file, JSON.stringify(tokenizer));
  const { status, stderr } = await hone(["models", "pull", folder]);
  const line = "hone: own-tokenizer cannot be converted: llama.cpp does not know its pre-tokenizer";
  expect([status, stderr]).toEqual([1, expect.stringContaining(line)]);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  expect(converted()).toEqual(before);
});

test("a tokenizer with more tokens than the model has embeddings is told so", async () => {
  const folder = join(home, "added-tokens");
  cpSync(modelPath("llama-tiny"), folder, { recursive: true });
  const file = join(folder, "tokenizer.json");
  const tokenizer = JSON.parse(readFileSync(file, "utf8"));
  const { vocab_size: id } = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  tokenizer.added_tokens.push({ ...tokenizer.added_tokens[0], id, content: "<added>" });
  writeFileSync(file, JSON.stringify(tokenizer));
  const { status, stderr } = await hone(["models", "pull", folder]);
  const line = "hone: added-tokens cannot be converted: its tokenizer has tokens beyond vocab_size of config.json";
  expect([status, stderr]).toEqual([1, expect.stringContaining(line)]);
});

test("a GGUF repository is played and trained from without a conversion, and removed again", async () => {
  const made = converted();
  const model = "hf:Org/Small-Instruct-GGUF:small-f16.gguf";
  const run = await hone(["train", "--model", model, "--steps", "1", ...task, ...small]);
  expect(run.status, run.stderr).toBe(0);
  expect(existsSync(join(home, ".hone/vowels/models/small-f16/checkpoints/0001"))).toBe(true);
  expect(converted()).toEqual(made);

  const list = await hone(["models", "--json"]);
  const rows = JSON.parse(list.stdout) as {
    name: string;
    here: boolean;
    bytes: number;
    files: string[];
    smallest_gpu: number;
    fits: string;
  }[];
  // What trains it, by the plan.
  const [own, large] = ["Org/Small-Instruct", "qwen2.5-14b"].map((name) => rows.find((row) => row.name === name));
  expect(own).toMatchObject({ smallest_gpu: 6, fits: expect.stringMatching(/^yes/) });
  expect(large?.smallest_gpu).toBeGreaterThan(40);
  expect(rows[0]).not.toHaveProperty("shape");
  const here = rows.filter((row) => row.here).map(({ name, files }) => [name, files.length]);
  expect(here).toEqual([
    ["tiny", 1],
    ["Org/Small-Instruct", made.length],
    ["Org/Small-Instruct-GGUF", 1],
  ]);
  const shown = await hone(["models", "show", "Org/Small-Instruct"]);
  expect(shown.stdout).toContain(join(home, ".hone/gguf", made[0] ?? ""));
  const removed = await hone(["models", "remove", "Org/Small-Instruct"]);
  expect(removed.stdout).toMatch(/^Org\/Small-Instruct: [\d.]+ MB freed\n/);
  expect([existsSync(cached), converted()]).toEqual([false, []]);
  const twice = await hone(["models", "remove", "Org/Small-Instruct"]);
  expect([twice.status, twice.stderr]).toEqual([2, "hone: nothing of Org/Small-Instruct is here\n"]);
});

test("a gated repository says its line and leaves no run behind; with its token it trains, and offline without one", async () => {
  server.behave = { gated: { "Org/Small-Instruct": "key" } };
  const train = ["train", "--run", "gated", "--model", "Org/Small-Instruct", ...task, ...small, "--steps"];
  const refused = await hone([...train, "1"]);
  expect([refused.status, refused.stderr]).toEqual([
    1,
    expect.stringMatching(/^hone: Org\/Small-Instruct is gated: accept its conditions at .*, then set HF_TOKEN .*\n$/),
  ]);
  expect(existsSync(join(home, ".hone/vowels/models/gated"))).toBe(false);

  const allowed = await hone([...train, "1"], { HF_TOKEN: "key" });
  expect(allowed.status, allowed.stderr).toBe(0);
  const asked = server.requests.length;
  const again = await hone([...train, "2"], { HF_HUB_OFFLINE: "1" });
  expect(again.status, again.stderr).toBe(0);
  expect(again.stdout).toContain("going on after step 1 of 2");
  expect(server.requests.length).toBe(asked);
  server.behave = {};
});

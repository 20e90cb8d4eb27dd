/** EleutherAI's lm-eval and Inspect evaluate a model that hone serves, in a Python environment that the test makes. */
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { ensureLearnerPython } from "../support/python.js";
import { type Server, serveTiny } from "./support.js";

const PACKAGES = ["lm_eval[api]==0.4.13", "inspect-ai==0.3.285", "openai==3.57.0", "transformers==5.17.0"];
const evaluators = fileURLToPath(new URL("evaluators/", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "hone-evaluators-"));
const bin = join(folder, "venv/bin");
const env = { HF_HUB_OFFLINE: "1", HF_HOME: join(folder, "hf") };
let learner: string;

beforeAll(async () => {
  learner = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
  execFileSync("python3", ["-m", "venv", join(folder, "venv")]);
  const install = ["-m", "pip", "install", "--quiet", "--no-compile", ...PACKAGES];
  execFileSync(join(bin, "python"), install, { stdio: ["ignore", "ignore", "inherit"] });
}, 900_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program beside the evaluators' files, while this process serves. @returns what it printed */
async function ran(command: string, ...args: string[]): Promise<string> {
  const options = { cwd: evaluators, env: { ...process.env, ...env } };
  return (await promisify(execFile)(command, args, options)).stdout;
}

/** What lm-eval kept of a task's samples, in their order: the model's answers to the requests of each. */
async function lmEval(server: Server, task: string): Promise<string[][][]> {
  const address = `base_url=${server.url}/completions,model=tiny,tokenizer=${modelPath("qwen2-tiny")},num_concurrent=4`;
  const out = join(folder, "out");
  const where = ["--include_path", ".", "--tasks", task, "--output_path", out, "--log_samples"];
  await ran(join(bin, "lm_eval"), "run", "--model", "local-completions", "--model_args", address, ...where);
  const [name] = readdirSync(out, { recursive: true, encoding: "utf8" }).filter((one) =>
    one.includes(`samples_${task}_`),
  );
  const samples = readFileSync(join(out, name as string), "utf8")
    .trimEnd()
    .split("\n");
  return samples
    .map((line) => JSON.parse(line))
    .sort((a, b) => a.doc_id - b.doc_id)
    .map(({ resps }) => resps);
}

it("gives lm-eval the log-probabilities and the greedy texts of transformers", async () => {
  const server = await serveTiny({ file: modelPath("qwen2-tiny-f32.gguf") });
  const reference = await ran(learner, "with_transformers.py", modelPath("qwen2-tiny"), "questions.jsonl");
  const { choices, texts } = JSON.parse(reference) as { choices: number[][]; texts: string[] };
  const scored = (await lmEval(server, "choices")).map((resps) => resps.map(([answer]) => Number(answer?.[0])));
  expect(scored.map((one) => one.length)).toEqual([3, 3, 3]);
  // The engine's KV cache has 16 bits.
  for (const [i, one] of scored.entries())
    for (const [j, score] of one.entries()) {
      const expected = choices[i]?.[j] as number;
      expect(Math.abs(score / expected - 1)).toBeLessThan(1e-3);
    }
  expect((await lmEval(server, "texts")).map(([first]) => first?.[0])).toEqual(texts);
  await server.close();
});

it("lets Inspect require a call: the tool runs, and the model reads its result", async () => {
  const server = await serveTiny();
  const printed = await ran(join(bin, "python"), "with_inspect.py", server.url, join(folder, "logs"));
  const { status, error, roles, calls, results } = JSON.parse(printed);
  expect([status, error]).toEqual(["success", null]);
  expect(roles.slice(0, 4)).toEqual(["user", "assistant", "tool", "assistant"]);
  const [name, args, wrong] = calls[0];
  expect([name, wrong]).toEqual(["find", null]);
  expect(results[0]).toBe(`found ${args.word}`);
  await server.close();
});

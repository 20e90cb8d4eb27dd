/**
 * `yarn notebook --adapter FOLDER [--steps 20] [--trl-steps 20] [--seed 1] [--folder build/notebook]`: OpenPipe ART's notebook of the email
 * agent as far as a CPU takes it (`--preset art-notebook`: 2 groups of 4, a judge's scores as rewards), by hone and by TRL's
 * GRPOTrainer, one after the other on the same questions. SmolLM2 solves nothing untaught, so both start from the
 * imitating checkpoint that `yarn learning --base smollm2-email` makes. Times, tokens, memory and success go to bench/results.
 */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { z } from "zod";
import { formatNamed } from "../../src/chat/formats/formats.js";
import { withDefaults } from "../../src/core/config/config.js";
import { RunStore } from "../../src/core/run/store.js";
import { type ChatMessage, toolSchema } from "../../src/core/task/task.js";
import { HoneError, UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { openMailDatabase } from "../../src/email/reader.js";
import { emailTools } from "../../src/email/tools.js";
import { usableCores } from "../../src/engine/threads.js";
import { downloadOptions } from "../../src/machine/input-options.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { readArguments } from "../arguments.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { median } from "../measure.js";
import { runMeasured } from "../process.js";
import { resultsFile } from "../results.js";
import { knowingScore, startScriptedJudge } from "../scripted-judge.js";
import { startTaskServer } from "./task-server.js";

const MODEL = "smollm2-135m-q4_1";
/** Of TRL's passes: with all 8 rollouts in one it needs more than 24 GB. */
const PASS_SIZE = 2;
/** Of TRL's rollouts, which do not end with the final answer: after one round of calls more than hone's rollouts have on average. */
const TRL_TURNS = 3;
const SHARED = {
  groups: 2,
  size: 4,
  learningRate: 1e-5,
  maxGradNorm: 0.1,
  maxTurns: 10,
  maxTokens: 128,
  context: 2048,
};

interface Side {
  /** From the start of the process to its end. */
  readonly seconds: number;
  /** Most memory of the process and its children at one time, in bytes (proportional set size). */
  readonly peak: number;
  readonly stepSeconds: readonly number[];
  /** Share of each step's rollouts that solved their question. */
  readonly success: readonly number[];
  /** Tokens of each step's rollouts: prompts, results of tools and what was sampled. */
  readonly tokens: readonly number[];
}

const stepsSchema = z.object({
  steps: z.array(z.object({ seconds: z.number(), success: z.number(), tokens: z.number() })),
});

function parse() {
  const { values } = parseArgs({
    options: {
      adapter: { type: "string" },
      steps: { type: "string", default: "20" },
      "trl-steps": { type: "string" },
      seed: { type: "string", default: "1" },
      folder: { type: "string", default: join(packageRoot, "build/notebook") },
    },
  });
  return values;
}

async function playOurs(folder: string, db: string, adapter: string, steps: number, seed: number) {
  const name = `notebook-${seed}`;
  // A finished run would not be trained again, and nothing would be measured.
  rmSync(join(folder, "email/models", name), { recursive: true, force: true });
  const mail = openMailDatabase(db);
  const judge = await startScriptedJudge({ score: knowingScore(mail) });
  const run = ["--home", folder, "--run", name, "--db", db, "--seed", `${seed}`];
  const model = ["--model", MODEL, "--weights", "f16", "--tool-format", "hermes", "--fork", adapter, "--gpu", "off"];
  const limits = ["--context", `${SHARED.context}`, "--max-tokens", `${SHARED.maxTokens}`];
  const rest = ["--validate-every", "0", "--validate-n", "1", "--judge-url", judge.url, "--judge-model", "scripted"];
  try {
    const cli = join(packageRoot, "dist/src/cli.js");
    const preset = ["train", "--preset", "art-notebook", "--steps", `${steps}`, "--json"];
    const { line, seconds, peak } = await runMeasured(process.execPath, [
      cli,
      ...preset,
      ...run,
      ...model,
      ...limits,
      ...rest,
    ]);
    const { folder: written } = JSON.parse(line) as { folder: string };
    const lines = readFileSync(join(written, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    const metrics = lines.map((each) => JSON.parse(each) as { success: number; seconds: { total: number } });
    const store = RunStore.read(join(written, "run.sqlite"));
    const played = Array.from({ length: steps }, (_, index) => store.rollouts("train", index + 1));
    store.close();
    const side: Side = {
      seconds,
      peak,
      stepSeconds: metrics.map((one) => one.seconds.total),
      success: metrics.map((one) => one.success),
      tokens: played.map((rollouts) => rollouts.reduce((sum, { tokens: one }) => sum + (one?.ids.length ?? 0), 0)),
    };
    const questions = played.flatMap((rollouts) => [
      ...new Map(rollouts.map((one) => [one.scenario.id, one])).values(),
    ]);
    return {
      side,
      questions: questions.map(({ scenario, messages }) => ({ id: scenario.id, messages: told(messages.slice(0, 2)) })),
    };
  } finally {
    await judge.close();
    mail.close();
  }
}

/** With the tools as hone's rollouts read them: a small model writes no call that runs where they are worded otherwise. */
function told(messages: readonly ChatMessage[]): ChatMessage[] {
  const tools = formatNamed("hermes").describe(emailTools.map(toolSchema));
  return messages.map((one) => (one.role === "system" ? { ...one, content: `${one.content}\n\n${tools}` } : one));
}

async function playTheirs(folder: string, db: string, adapter: string, questions: readonly unknown[], seed: number) {
  const python = await ensurePython({ extras: ["dev"], onProgress: console.error });
  const gguf = await resolveModel(
    MODEL,
    withDefaults(["weights", "home", ...downloadOptions], { weights: "f16", home: folder }),
    { log: console.error },
  );
  const file = join(folder, `questions-${seed}.json`);
  writeFileSync(file, JSON.stringify(questions));
  const server = await startTaskServer(db);
  try {
    const { groups, size, learningRate, maxGradNorm, maxTokens, context } = SHARED;
    const numbers = {
      groups,
      size,
      "pass-size": PASS_SIZE,
      "learning-rate": learningRate,
      "max-grad-norm": maxGradNorm,
      "max-turns": TRL_TURNS,
    };
    const more = { "max-tokens": maxTokens, context, threads: usableCores(), seed };
    const { line, seconds, peak } = await runMeasured(python, [
      join(packageRoot, "bench/notebook/trl_side.py"),
      "--gguf",
      gguf,
      "--adapter",
      join(adapter, "adapter"),
      "--server",
      server.url,
      "--questions",
      file,
      ...Object.entries({ ...numbers, ...more }).flatMap(([name, value]) => [`--${name}`, `${value}`]),
    ]);
    const { steps } = stepsSchema.parse(JSON.parse(line));
    const tokens = steps.map((step, index) => step.tokens - (steps[index - 1]?.tokens ?? 0));
    const side: Side = {
      seconds,
      peak,
      tokens,
      stepSeconds: steps.map((step) => step.seconds),
      success: steps.map((step) => step.success),
    };
    return side;
  } finally {
    server.close();
  }
}

function shown(name: string, { seconds, peak, stepSeconds, success, tokens }: Side): string {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const half = Math.ceil(success.length / 2);
  return [
    `${name}: ${seconds.toFixed(0)} s`,
    `${median(stepSeconds).toFixed(1)} s a step (median)`,
    `${mean(tokens).toFixed(0)} tokens a step`,
    `${(peak / 1e9).toFixed(2)} GB at most`,
    `success ${(100 * mean(success.slice(0, half))).toFixed(1)} % in the first half of the steps, ${(100 * mean(success.slice(half))).toFixed(1)} % in the second`,
  ].join(", ");
}

try {
  const values = readArguments(parse, "yarn notebook");
  if (values.adapter === undefined) throw new UsageError("give --adapter, a folder that yarn hone sft wrote");
  const [steps, seed] = [Number(values.steps), Number(values.seed)];
  const [folder, adapter] = [resolve(values.folder), resolve(values.adapter)];
  mkdirSync(folder, { recursive: true });
  const db = join(folder, "mail.db");
  await runMeasured(process.execPath, [join(packageRoot, "dist/src/cli.js"), "build-db", "--db", db]);
  // hone's side is kept for when TRL's has to be run again.
  const kept = join(folder, `hone-${seed}-${steps}.json`);
  if (!existsSync(kept)) writeFileSync(kept, JSON.stringify(await playOurs(folder, db, adapter, steps, seed)));
  const { side: hone, questions } = JSON.parse(readFileSync(kept, "utf8")) as Awaited<ReturnType<typeof playOurs>>;
  console.log(shown("hone", hone));
  const theirs = questions.slice(0, SHARED.groups * Number(values["trl-steps"] ?? steps));
  const trl = await playTheirs(folder, db, adapter, theirs, seed);
  console.log(shown("TRL", trl));
  const hardware = hardwareOf(undefined);
  const date = new Date().toISOString().slice(0, 10);
  const file = resultsFile("notebook", hardware);
  const settings = { model: MODEL, ...SHARED, passSize: PASS_SIZE, trlTurns: TRL_TURNS, steps, seed };
  writeFileSync(
    file,
    `${JSON.stringify({ date, hardware, versions: versionsOf(undefined), settings, hone, trl }, null, 1)}\n`,
  );
  console.log(`saved to ${file}`);
} catch (error) {
  if (!(error instanceof HoneError)) throw error;
  console.error(`notebook: ${error.message}`);
  process.exitCode = error.exitCode;
}

/** Exports in GGUF form in llama.cpp's own server, where one has been compiled (`yarn llama-server` puts it in build/). */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";
import { loadEngine } from "../../src/engine/factory.js";
import { exportRun } from "../../src/machine/export/export.js";
import { freePort } from "../support/free-port.js";
import { configIn, meanDistance, modelOf, prepared, trainedRun } from "./support.js";

// One for each set of llama.cpp's libraries: the server computes on the CPU with any of them.
const tools = join(packageRoot, "build/llama-tools");
const programs = (existsSync(tools) ? readdirSync(tools) : []).map((name) => join(tools, name, "llama-server"));
const program = programs.find((file) => existsSync(file));
const lack = program ? "" : " (skipped: `yarn llama-server` compiles one)";

const PROMPT = 40;
const TOKENS = 24;
const random = new Random("llama-server");
const prompt = Array.from({ length: PROMPT }, () => random.integer(0, 200));

interface Answer {
  readonly tokens: number[];
  readonly completion_probabilities: readonly { readonly id: number; readonly logprob: number }[];
}

/** What an engine says of the same: its greedy tokens, and log-probabilities of tokens that are given. */
async function engine(model: string, adapter?: string) {
  const loaded = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 256 });
  if (adapter !== undefined) await loaded.useAdapter(adapter);
  return {
    async greedy() {
      const sequence = loaded.open(Int32Array.from(prompt));
      const sampling = { temperature: 0, seed: 1 };
      const { tokens } = await sequence.generate({ maxTokens: TOKENS, sampling, stop: [] });
      sequence.close();
      return [...tokens];
    },
    scores: (tokens: readonly number[]) => loaded.score(Int32Array.from([...prompt, ...tokens]), { from: PROMPT }),
    close: () => loaded.close(),
  };
}

describe.runIf(program)(`an export in GGUF form in llama-server${lack}`, () => {
  let home: string;
  let python: string;
  let child: ChildProcess | undefined;
  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), "hone-export-server-"));
    python = await prepared();
    await trainedRun(home, "counted");
  }, 900_000);
  const stop = async () => {
    const server = child;
    child = undefined;
    if (!server || server.exitCode !== null) return;
    const gone = new Promise((resolve) => server.once("close", resolve));
    server.kill("SIGKILL");
    await gone;
  };
  afterEach(stop);
  afterAll(() => rmSync(home, { recursive: true }));

  async function served(...args: string[]): Promise<Answer> {
    const port = await freePort();
    const where = ["--host", "127.0.0.1", "--port", `${port}`, "-c", "256", "-np", "1", "-t", "1"];
    child = spawn(program as string, [...args, ...where, "--device", "none"], { stdio: "ignore" });
    const body = {
      prompt,
      n_predict: TOKENS,
      temperature: 0,
      ignore_eos: true,
      cache_prompt: false,
      n_probs: 1,
      post_sampling_probs: false,
      return_tokens: true,
    };
    for (;;) {
      if (child.exitCode !== null) throw new Error(`llama-server ended with exit code ${child.exitCode}`);
      const asked = fetch(`http://127.0.0.1:${port}/completion`, { method: "POST", body: JSON.stringify(body) });
      const answer = await asked.catch(() => undefined);
      if (answer?.ok) return (await answer.json()) as Answer;
      await sleep(200);
    }
  }

  const exported = async (to: "gguf" | "gguf-lora") => {
    const type = to === "gguf" ? { type: "f16" as const } : {};
    const io = { log: () => undefined, update: () => undefined };
    const config = configIn(home, python, { to, out: join(home, to), ...type });
    return (await exportRun(config, io)).folder;
  };

  it.each(["gguf", "gguf-lora"] as const)(
    "--to %s gives the engine's greedy tokens and log-probabilities",
    async (to) => {
      const folder = await exported(to);
      const [model, adapter] =
        to === "gguf" ? [join(folder, "model-f16.gguf")] : [modelOf(), join(folder, "adapter.gguf")];
      const answer = await served("-m", model as string, ...(adapter ? ["--lora", adapter] : []));
      await stop();
      const same = await engine(model as string, adapter);
      const [greedy, wanted] = [await same.greedy(), await same.scores(answer.tokens)];
      await same.close();
      const bare = await engine(modelOf());
      const without = await bare.scores(answer.tokens);
      await bare.close();
      expect(answer.tokens).toEqual(greedy);
      // The server gives none for a token that ends within a character.
      const given = answer.completion_probabilities;
      const at = given.flatMap(({ id }, i) => (answer.tokens[i] === id ? [i] : []));
      expect(at.length).toBeGreaterThan(TOKENS / 2);
      const pick = (scores: ArrayLike<number>) => Float32Array.from(at, (i) => scores[i] as number);
      const distance = meanDistance(pick(given.map(({ logprob }) => logprob)), pick(wanted));
      // What the adapter does, of which rounding in f16 may be half of its last bit: a server without it is far beyond.
      const effect = meanDistance(pick(without), pick(wanted));
      console.log(
        `${to}: ${distance.toExponential(1)} nats a token from the engine; the adapter moves ${effect.toFixed(3)}`,
      );
      expect(distance).toBeLessThan(effect * 2 ** -7);
    },
  );
});

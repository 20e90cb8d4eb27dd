/**
 * What hone's engine is compared with: llama-server writes the same tokens with the same log-probabilities, and both play the same
 * script. Runs where a llama-server has been compiled (`yarn llama-server` puts it in build/).
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LlamaServerEngine } from "../../bench/llama-server/engine.js";
import { playMail } from "../../bench/llama-server/play.js";
import { type Server, startServer } from "../../bench/llama-server/server.js";
import { templateOf } from "../../src/chat/chat.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFile } from "../../src/engine/models.js";

const program = join(packageRoot, "build/llama-tools", `${process.platform}-${process.arch}`, "llama-server");
const compiled = existsSync(program);
const lack = compiled ? "" : " (skipped: `yarn llama-server` compiles one)";

describe.runIf(compiled)(`a sequence on llama-server${lack}`, () => {
  let engine: LocalEngine;
  let server: Server;
  let onServer: LlamaServerEngine;
  let withoutLogprobs: LlamaServerEngine;

  beforeAll(async () => {
    engine = await loadEngine({ model: modelFile("tiny"), gpu: false, sequences: 4, contextPerSequence: 2048 });
    server = await startServer(program, engine);
    onServer = new LlamaServerEngine(server.port, engine);
    withoutLogprobs = new LlamaServerEngine(server.port, engine, false);
  });
  afterAll(async () => {
    await onServer.close();
    await withoutLogprobs.close();
    await server.stop();
    await engine.close();
  });

  const prompt = () =>
    Int32Array.from(templateOf(engine).prompt([{ role: "user", content: "When does the project start?" }], []));
  const sequence = (logprobs: boolean) => (logprobs ? onServer : withoutLogprobs).open(prompt());
  const stop = () => engine.info.endTokens;

  it("writes the engine's tokens, stop token included, over turns that append", async () => {
    const theirs = sequence(true);
    const ours = engine.open(prompt());
    try {
      const append = engine.tokenize("\nPlease say more.", { special: false });
      for (const turn of [{}, { append }]) {
        const options = { ...turn, maxTokens: 60, sampling: { temperature: 0, seed: 1 }, stop: stop() };
        const expected = await ours.generate(options);
        const got = await theirs.generate(options);
        expect([...got.tokens]).toEqual([...expected.tokens]);
        expect(got.stop).toBe(expected.stop);
        expect(theirs.length).toBe(ours.length);
      }
    } finally {
      ours.close();
    }
  });

  it("has the log-probabilities that the engine gives the same tokens", async () => {
    const theirs = sequence(true);
    const { tokens, logprobs } = await theirs.generate({ maxTokens: 40, sampling: { seed: 5 }, stop: [] });
    expect(tokens).toHaveLength(40);
    const scored = await engine.score(Int32Array.from([...prompt(), ...tokens]), { from: prompt().length });
    // The server leaves out tokens that end within a character, which this model rarely writes.
    const given = [...logprobs].map((value, i) => [value, scored[i] as number]).filter(([value]) => value !== 0);
    expect(given.length).toBeGreaterThan(20);
    for (const [value, expected] of given) expect(Math.abs((value as number) - (expected as number))).toBeLessThan(0.1);
  });

  it("says that a turn was cancelled or came too late", async () => {
    const options = { maxTokens: 1500, sampling: { seed: 1 }, stop: [] };
    const aborted = AbortSignal.abort();
    expect((await sequence(false).generate({ ...options, signal: aborted })).stop).toBe("cancelled");
    expect((await sequence(false).generate({ ...options, seconds: 0.02 })).stop).toBe("deadline");
  });

  it("refuses what it would sample otherwise than the engine", async () => {
    const options = { maxTokens: 5, sampling: { seed: 1 }, stop: stop() };
    await expect(sequence(false).generate({ ...options, stop: [3] })).rejects.toThrow("stops at the tokens");
    await expect(sequence(false).generate({ ...options, sampling: { seed: 1, topK: 5 } })).rejects.toThrow("truncated");
  });

  it("plays the script of four turns, as the engine does", async () => {
    for (const player of [engine, onServer]) {
      const played = await playMail(player, { groups: 2, groupSize: 2, concurrency: 4, step: 0, scripted: true });
      expect(played).toMatchObject({ rollouts: 4, turns: 16, solved: 4 });
    }
  });
});

/** Threads that share one engine. Workers run the compiled files: `yarn test` compiles them first. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import type { LocalEngineOptions } from "../../src/core/engine/engine.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { crowd, outlivesItsWorkers } from "./behaviours.js";
import { adapterPath, concat, largestDifference, newModel, options, prompt, ROUNDING, testEngine } from "./support.js";

const run = promisify(execFile);
const door = join(packageRoot, "dist/src/engine/factory.js");

/** Opens `members` sequences with one prompt; when it is told to, asks for a turn of each and tells the results. */
const program = `
  const { parentPort, workerData } = require("node:worker_threads");
  import(workerData.engine).then(async ({ loadEngine }) => {
    const engine = await loadEngine(workerData.options);
    const group = engine.openGroup(workerData.prompt, workerData.members);
    parentPort.once("message", async () => {
      const turns = group.map((sequence, index) =>
        sequence.generate({ maxTokens: workerData.tokens, sampling: { seed: workerData.seed + index }, stop: [] }),
      );
      parentPort.postMessage("begun");
      parentPort.postMessage(await Promise.all(turns));
      await engine.close();
    });
    parentPort.postMessage("ready");
  });
`;

interface Job {
  options: LocalEngineOptions;
  prompt: Int32Array;
  members: number;
  tokens: number;
  seed: number;
}

interface Sampled {
  tokens: Int32Array;
  logprobs: Float32Array;
  stop: string;
}

function start(job: Job) {
  const worker = new Worker(program, { eval: true, workerData: { engine: door, ...job } });
  const failed = new Promise<never>((_, reject) => worker.once("error", reject));
  const told = <T>(wanted: (message: unknown) => boolean) =>
    Promise.race([
      new Promise<T>((resolve) => worker.on("message", (message: T) => void (wanted(message) && resolve(message)))),
      failed,
    ]);
  return {
    worker,
    ready: told((message) => message === "ready"),
    begun: told((message) => message === "begun"),
    results: told<Sampled[]>(Array.isArray),
  };
}

describe("threads", () => {
  it("share one engine: one copy of the weights, one batch", async () => {
    const shared = options({ sequences: 8, contextPerSequence: 8192, model: newModel() });
    const engine = await testEngine(shared);
    const text = prompt("shared by two threads ");
    const job = { options: shared, prompt: text, members: 3, tokens: 100 };
    const [one, two] = [start({ ...job, seed: 1 }), start({ ...job, seed: 11 })];
    await Promise.all([one.ready, two.ready]);
    // The workers' turns wait behind one of this thread and a change of adapter: all six begin together.
    const over = new AbortController();
    const held = engine.open(text).generate({ maxTokens: 8000, sampling: { seed: 1 }, stop: [], signal: over.signal });
    const changed = engine.useAdapter(adapterPath("workers"));
    for (const { worker } of [one, two]) worker.postMessage("go");
    await Promise.all([one.begun, two.begun]);
    over.abort();
    const before = (await held).tokens.length;
    await changed;
    const results = (await Promise.all([one.results, two.results])).flat();
    const { decoded, batches } = engine.stats();
    expect(decoded).toBe(before + 600);
    // Six tokens a batch. Prompts, and each sequence's last token of it, may take a batch of their own.
    expect(batches).toBeLessThanOrEqual(before + 100 + 14);
    for (const { tokens, logprobs } of results) {
      const scored = await engine.score(concat(text, tokens), { from: text.length });
      expect(largestDifference(scored, logprobs)).toBeLessThan(ROUNDING);
    }
    await Promise.all([one.worker.terminate(), two.worker.terminate()]);
  });

  it("must begin with the main thread", async () => {
    const job = { options: options(), prompt: [1], members: 1, tokens: 1, seed: 1, engine: door };
    const script = `
      const { Worker } = require("node:worker_threads");
      const worker = new Worker(${JSON.stringify(program)}, { eval: true, workerData: ${JSON.stringify(job)} });
      worker.on("error", (error) => console.log(error.message));`;
    const { stdout } = await run(process.execPath, ["-e", script]);
    expect(stdout).toContain("load the engine on the main thread before workers use it");
  });

  it("may be terminated in mid-decode without harm to the others", async () => {
    await outlivesItsWorkers(
      { workers: process.env.TEST_FULL ? 20 : 10, ...crowd },
      options({ sequences: 6 }),
      ROUNDING,
    );
  });

  it("leave nothing behind when the process exits in mid-decode", async () => {
    const script = `
      import(${JSON.stringify(door)}).then(async ({ loadEngine }) => {
        const engine = await loadEngine(${JSON.stringify(options())});
        for (const sequence of engine.openGroup(Int32Array.of(1, 2, 3), 6))
          sequence.generate({ maxTokens: 400, sampling: { seed: 1 }, stop: [] });
        setTimeout(() => process.exit(7), 30);
      });`;
    await expect(run(process.execPath, ["-e", script])).rejects.toMatchObject({ code: 7, signal: null });
  });
});

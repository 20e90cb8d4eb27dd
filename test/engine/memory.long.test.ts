/** Memory and threads of the process itself: what sleep and failed loads give back, seen from outside the engine. */
import { execFile } from "node:child_process";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import type { NativeSettings } from "../../src/engine/addon.js";
import { givesMemoryBack } from "./behaviours.js";
import { close, nativeSettings, newModel, prompt, testEngine } from "./support.js";

const MB = 2 ** 20;
const sampling = { seed: 1 };

/** Resident bytes, those of mapped files included. */
const resident = () => process.memoryUsage.rss();

describe("sleep", () => {
  // The model's KV has 512 bytes a token: 32 sequences of 16,384 have 256 MB of it.
  const SEQUENCES = 32;
  const CONTEXT = 16_384;
  const KV = SEQUENCES * CONTEXT * 512;
  // Two layers of three matrices.
  const INNER = 81_920;
  const WEIGHTS = 2 * 3 * INNER * 64 * 4;

  it("gives the KV back to the system, with weights also these, and wake takes them again", async () => {
    const engine = await testEngine({
      model: newModel({ inner: INNER }),
      sequences: SEQUENCES,
      contextPerSequence: CONTEXT,
      batch: 128,
      ubatch: 64,
    });
    expect(engine.memory()).toMatchObject({ kv: KV });
    expect(engine.memory().weights).toBeGreaterThan(WEIGHTS);
    // Evaluating touches all weights. The KV was cleared when it was allocated.
    const play = async () => {
      const sequence = engine.open(prompt("touch the weights "));
      await sequence.generate({ maxTokens: 4, sampling, stop: [] });
      sequence.close();
    };
    await play();
    const awake = resident();
    expect(awake).toBeGreaterThan(KV + WEIGHTS);
    await givesMemoryBack(engine, { kv: KV, weights: WEIGHTS }, resident, play);
    await close(engine);
    expect(awake - resident()).toBeGreaterThan(0.8 * (KV + WEIGHTS));
  });
});

const linux = process.platform === "linux";
describe.skipIf(!linux)(`a load that fails${linux ? "" : " (skipped: only Linux shows what a process holds)"}`, () => {
  const LOADS = 30;
  type Held = { threads: number; resident: number };
  const THREADS = 4;
  // A batch is described in about 50 bytes a token: were it lost, each load would lose 3 MB.
  const settings = (model: string) => nativeSettings(model, { threads: THREADS, batch: 65_536 });
  const truncated = () => {
    const model = newModel();
    // The header and its vocabulary are whole; the last weights are missing.
    truncateSync(model, readFileSync(model).length - 64_000);
    return model;
  };

  /** The tokenizer can be loaded from it, the weights cannot. */
  const incomplete = () => {
    const model = newModel();
    const bytes = readFileSync(model);
    bytes.write("blk.1.ffn_gone", bytes.indexOf("blk.1.ffn_down"));
    writeFileSync(model, bytes);
    return model;
  };

  const failing: [what: string, settings: () => NativeSettings, reason: RegExp][] = [
    ["a truncated file", () => settings(truncated()), /cannot be loaded: .*(bounds|corrupted|incomplete)/],
    ["a file that lacks weights", () => settings(incomplete()), /cannot be loaded: .*blk.1.ffn_down/],
    [
      "more sequences than llama.cpp allows",
      () => ({ ...settings(newModel()), sequences: 300, outputs: 301 }),
      /llama.cpp cannot be set up for 300 sequences of 256 tokens: .*256/,
    ],
    [
      "more sequences than it allows, in the second lane",
      () => ({ ...settings(newModel()), lanes: 2, sequences: 514, outputs: 515 }),
      /llama.cpp cannot be set up for 257 sequences of 256 tokens: .*256/,
    ],
  ];
  /**
   * Loads in a process of its own, which may take `more` MB more than it has once llama.cpp is loaded. One arena for its
   * allocator: with one for each thread of Node's pool, each keeps what one failed load has given back (50 MB and more).
   */
  async function failedLoads(bad: NativeSettings, more?: number) {
    const script = `
      const { readdirSync, readFileSync } = require("node:fs");
      const { execFileSync } = require("node:child_process");
      import(${JSON.stringify(join(packageRoot, "dist/src/engine/addon.js"))}).then(async ({ openAddon }) => {
        const addon = await openAddon(false);
        const size = Number(readFileSync("/proc/self/statm", "utf8").split(" ")[0]) * 4096;
        const more = ${more ?? 0};
        if (more > 0) execFileSync("prlimit", ["--pid", String(process.pid), "--as=" + (size + more * 2 ** 20)]);
        const errors = new Set();
        const load = () => addon.load(${JSON.stringify(bad)}).catch((error) => errors.add(error.message));
        const seen = () => ({ threads: readdirSync("/proc/self/task").length, resident: process.memoryUsage.rss() });
        // Allocators and Node's own pool of threads take what they want at first.
        for (let i = 0; i < 10; i++) await load();
        const before = seen();
        for (let i = 0; i < ${LOADS}; i++) await load();
        for (let tries = 0; tries < 100 && seen().threads > before.threads; tries++) await new Promise((resolve) => setTimeout(resolve, 20));
        console.log(JSON.stringify({ errors: [...errors], before, after: seen() }));
      });`;
    const env = { ...process.env, MALLOC_ARENA_MAX: "1" };
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", script], { env });
    return JSON.parse(stdout) as { errors: string[]; before: Held; after: Held };
  }

  function expectNothingLeft({ errors, before, after }: Awaited<ReturnType<typeof failedLoads>>, reason: RegExp) {
    expect(errors).not.toEqual([]);
    // Addresses and sizes in llama.cpp's words may differ.
    for (const error of errors) expect(error).toMatch(reason);
    expect(after.threads).toBeLessThanOrEqual(before.threads);
    expect(after.resident - before.resident).toBeLessThan(LOADS * MB);
  }

  it.each(failing)("leaves no thread and no memory behind: %s", async (_, make, reason) => {
    expectNothingLeft(await failedLoads(make()), reason);
  });

  it("leaves no thread and no memory behind: more KV than there is memory", async () => {
    // 512 MB of KV.
    const bad = { ...settings(newModel()), sequences: 8, contextPerSequence: 2 ** 17, outputs: 9 };
    const reason = /^no room for the KV of 8 sequences of 131072 tokens \(about 512 MiB\): ./;
    expectNothingLeft(await failedLoads(bad, 400), reason);
  });
});

/** An engine for which there is no memory says so by a type of its own, and can go on with less. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { EngineOutOfMemory } from "../../src/core/engine/errors.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { newModel, options } from "./support.js";

const MB = 2 ** 20;
/** The model's KV has 512 bytes a token: 32 MB a sequence. */
const wide = { ...options(), sequences: 8, contextPerSequence: 2 ** 16, batch: 64, ubatch: 64 };
/**
 * What the process may take beside what it has: less than the 336 MB of KV and buffers of all sequences, more than the 144 of
 * two; V8 may take some of it in between.
 */
const ROOM = 240 * MB;

it("is an error that a user can act on", () => {
  expect(new EngineOutOfMemory("no room")).toBeInstanceOf(HoneError);
});

const linux = process.platform === "linux";
describe.skipIf(!linux)(
  `too little memory${linux ? "" : " (skipped: only Linux limits what a process may take)"}`,
  () => {
    it("fails the load and the wake with EngineOutOfMemory; the engine sleeps as before and wakes with less", async () => {
      const script = `
      const { readFileSync } = require("node:fs");
      const { execFileSync } = require("node:child_process");
      const limit = (bytes) => execFileSync("prlimit", ["--pid", String(process.pid), "--as=" + bytes + ":"]);
      const tighten = () => limit(Number(readFileSync("/proc/self/statm", "utf8").split(" ")[0]) * 4096 + ${ROOM});
      Promise.all([import(${JSON.stringify(join(packageRoot, "dist/src/engine/factory.js"))}), import(${JSON.stringify(join(packageRoot, "dist/src/core/engine/errors.js"))})]).then(async ([{ loadEngine }, { EngineOutOfMemory }]) => {
        const failure = (error) => ({ memory: error instanceof EngineOutOfMemory, message: error.message });
        const small = await loadEngine(${JSON.stringify({ ...options(), model: newModel() })});
        await small.close();
        const seen = {};
        tighten();
        seen.load = await loadEngine(${JSON.stringify(wide)}).then(() => null, failure);
        seen.unreadable = await loadEngine({ ...${JSON.stringify(wide)}, model: ${JSON.stringify(import.meta.filename)} }).then(() => null, failure);
        limit("unlimited");
        const engine = await loadEngine(${JSON.stringify(wide)});
        const tokens = Int32Array.of(1, 2, 3, 4);
        const before = [...await engine.score(tokens)];
        for (const weights of [false, true]) {
          await engine.sleep({ weights });
          tighten();
          const wake = await engine.wake().then(() => null, failure);
          const turn = await engine.score(tokens).then(() => null, failure);
          const asleep = engine.memory();
          await engine.wake({ sequences: 2 });
          const after = [...await engine.score(tokens)];
          limit("unlimited");
          seen[weights] = { wake, turn, asleep: [asleep.kv, asleep.weights > 0], kv: engine.memory().kv, same: String(after) === String(before) };
          await engine.sleep();
          await engine.wake({ sequences: 8 });
        }
        seen.kv = engine.memory().kv;
        await engine.close();
        console.log(JSON.stringify(seen));
      });`;
      const { stdout } = await promisify(execFile)(process.execPath, ["-e", script]);
      const seen = JSON.parse(stdout);
      const lacking = {
        memory: true,
        message: expect.stringMatching(
          /^no room for the KV of 8 sequences of 65536 tokens \(about 256 MiB\): .*; fewer sequences \(--concurrency\) or shorter ones \(--context\) need less memory$/,
        ),
      };
      expect(seen.load).toEqual(lacking);
      expect(seen.unreadable).toEqual({
        memory: false,
        message: expect.stringMatching(/out-of-memory\.test\.ts is not a GGUF model: it does not begin with GGUF$/),
      });
      for (const weights of [false, true]) {
        expect(seen[String(weights)]).toEqual({
          wake: lacking,
          turn: { memory: false, message: "the engine sleeps; wake() it first" },
          asleep: [0, !weights],
          kv: 64 * MB,
          same: true,
        });
      }
      expect(seen.kv).toBe(256 * MB);
    });
  },
);

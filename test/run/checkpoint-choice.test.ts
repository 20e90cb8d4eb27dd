import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { evaluate } from "../../src/core/run/evaluation.js";
import { RunStore } from "../../src/core/run/store.js";
import { optionsOfCheckpoint } from "../../src/machine/runs/checkpoint-choice.js";

/** A run that has no step yet, with these options. */
function run(options: Record<string, unknown>) {
  const home = mkdtempSync(join(tmpdir(), "hone-checkpoint-choice-"));
  const folder = join(home, "counting/models/r");
  mkdirSync(folder, { recursive: true });
  const store = RunStore.open(join(folder, "run.sqlite"));
  store.begin(
    { name: "r", created: "2031-01-01T00:00:00Z", options, contents: { model: "ab" } },
    { checkpoint: null, adapter: null },
  );
  store.close();
  return { home, project: "counting", run: "r" };
}

describe("a checkpoint that plays", () => {
  const task = { model: "/m.gguf", task: "email", seed: 1 };
  const chat = { toolFormat: "llama3", templateArg: { enable_thinking: false }, maxThinkingTokens: 64 };

  it("is written to as in its training", async () => {
    expect(await optionsOfCheckpoint(run({ ...task, ...chat }), ["base"])).toEqual({ ...task, ...chat, set: {} });
  });

  it("leaves what its run left unset to the defaults", async () => {
    expect(await optionsOfCheckpoint(run(task), ["base"])).toEqual({ ...task, set: {} });
  });

  it("plays the run's scenarios: its task's options and its seed", async () => {
    const set = { steps: 3 };
    expect(await optionsOfCheckpoint(run({ ...task, set, seed: 7 }), ["base"])).toEqual({ ...task, set, seed: 7 });
  });

  it("is named with its run where there is none", async () => {
    await expect(optionsOfCheckpoint(run(task), ["16"])).rejects.toThrow(
      "--checkpoint 16: the run r has none; give one of latest, best, base",
    );
  });

  it("is the latest where the best is asked for and no validation has a mean", async () => {
    const where = run(task);
    const store = RunStore.open(join(where.home, "counting/models/r/run.sqlite"));
    store.commitStep({ step: 1, checkpoint: 1, adapter: "cd", metrics: null, timing: null }, []);
    store.commitValidation({ step: 1, checkpoint: null, result: evaluate([], 2), seconds: 1 });
    store.close();
    await expect(optionsOfCheckpoint(where, ["best"])).rejects.toThrow("--checkpoint best: the run r has none");
  });

  it("has the MCP servers of its run", async () => {
    const servers = { mcp: "/servers.json", mcpAllow: ["files/*"], mcpDeny: ["files/write_*"] };
    expect(await optionsOfCheckpoint(run({ ...task, ...servers }), ["base"])).toEqual({ ...task, ...servers, set: {} });
  });
});

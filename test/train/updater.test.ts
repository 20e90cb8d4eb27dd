import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LearnerDied, LearnerOutOfMemory, LearnerRefused } from "../../src/core/learn/errors.js";
import { PROTOCOL_VERSION } from "../../src/core/learn/protocol.js";
import type { LearnerLifetime, StepSettings } from "../../src/core/learn/types.js";
import type { UpdateRequest } from "../../src/core/train/parts.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { type LearnerLike, learnerUpdater, openUpdater, type UpdaterSources } from "../../src/trainer/updater.js";
import { anyPython } from "../support/python.js";
import { metricsOf, stepSettings } from "./support/fakes.js";

type Step = (settings: StepSettings) => Promise<ReturnType<typeof metricsOf>>;

const request = {
  batch: "b",
  into: "i",
  from: "c",
  adapter: null,
  learningRate: 1,
  rollouts: 16,
  sampledTokens: 16,
  seed: 5,
  adapterType: "f32" as const,
  onAsk: async () => undefined,
  onProgress: () => undefined,
};

/** An updater over learners that answer as told, one entry an update. */
function updaterOf(lifetime: LearnerLifetime, answers: Step[]) {
  const log: string[] = [];
  const said: string[] = [];
  const asked: StepSettings[] = [];
  const start = async (from: string | undefined): Promise<LearnerLike> => {
    log.push(`start ${from}`);
    return {
      step: async (settings) => {
        log.push(`step ${settings.microBatchTokens}`);
        asked.push(settings);
        return (answers.shift() as Step)(settings);
      },
      close: async () => void log.push("close"),
    };
  };
  const updater = learnerUpdater({ lifetime, step: stepSettings, start, log: (text) => said.push(text) });
  let last = 0;
  const update = (signal = new AbortController().signal, from = `c${++last}`) =>
    updater.update({ ...request, from, signal });
  return { updater, update, log, said, asked };
}

const good: Step = async () => metricsOf();
const fails =
  (error: Error): Step =>
  async () =>
    Promise.reject(error);

describe("the learner between steps", () => {
  it("is told of the step and what every step shares", async () => {
    const { update, asked } = updaterOf("run", [good]);
    await update();
    const { from: _, onAsk: __, ...told } = request;
    expect(asked).toEqual([{ ...stepSettings, ...told }]);
  });

  it("lives for the run", async () => {
    const { updater, update, log } = updaterOf("run", [good, good]);
    await updater.prepare(undefined);
    await update();
    await update();
    expect(log).toEqual(["start undefined", "step 1024", "step 1024"]);
    await updater.close();
    expect(log.at(-1)).toBe("close");
  });

  it("is started once, and an update waits for it", async () => {
    const { updater, update, log } = updaterOf("run", [good]);
    const first = updater.prepare(undefined);
    expect(updater.prepare(undefined)).toBe(first);
    await update();
    expect(log).toEqual(["start undefined", "step 1024"]);
  });

  it("is ended while it loads when the run ends", async () => {
    const start = (_: string | undefined, signal: AbortSignal) =>
      new Promise<LearnerLike>((_, reject) => {
        signal.addEventListener("abort", () => reject(new LearnerDied("was closed", [], "log")));
      });
    const updater = learnerUpdater({ lifetime: "run", step: stepSettings, start, log: () => undefined });
    const loading = updater.prepare(undefined).catch((error: unknown) => error);
    await updater.close();
    expect(await loading).toBeInstanceOf(LearnerDied);
  });

  it("is ended while it loads for an update that is interrupted", async () => {
    const stop = new AbortController();
    const start = (_: string | undefined, signal: AbortSignal) =>
      new Promise<LearnerLike>((_, reject) => {
        signal.addEventListener("abort", () => reject(new LearnerDied("was closed", [], "log")));
        setImmediate(() => stop.abort());
      });
    const updater = learnerUpdater({ lifetime: "step", step: stepSettings, start, log: () => undefined });
    await expect(updater.update({ ...request, signal: stop.signal })).rejects.toThrow("was closed");
  });

  it("is replaced where an update of its was not kept, at a checkpoint that it has gone on from", async () => {
    const skipped: Step = async () => metricsOf({ applied: false, skipped: "loss" });
    const { update, log } = updaterOf("run", [good, skipped, good, good, good]);
    for (const from of ["c1", "c2", "c2", "c3", "c2"]) await update(undefined, from);
    const step = "step 1024";
    expect(log).toEqual(["start c1", step, step, step, step, "close", "start c2", step]);
  });

  it("or for one update, when its memory is wanted back", async () => {
    const { updater, update, log } = updaterOf("step", [good, good]);
    await updater.prepare(undefined);
    expect(log).toEqual(["start undefined", "close"]);
    log.length = 0;
    await update();
    await update();
    expect(log).toEqual(["start c1", "step 1024", "close", "start c2", "step 1024", "close"]);
  });

  it("or for the run while its model goes to main memory by itself", async () => {
    const { updater, update, log } = updaterOf("offload", [good, good]);
    await updater.prepare(undefined);
    await update();
    await update();
    expect(log).toEqual(["start undefined", "step 1024", "step 1024"]);
  });

  it("is not started again with smaller micro-batches when its model does not fit", async () => {
    let starts = 0;
    const start = async () => {
      starts++;
      throw new LearnerOutOfMemory("the learner's model does not fit into memory");
    };
    const said: string[] = [];
    const updater = learnerUpdater({ lifetime: "run", step: stepSettings, start, log: (text) => said.push(text) });
    const signal = new AbortController().signal;
    const onProgress = () => undefined;
    const request = {
      batch: "b",
      into: "i",
      from: "c",
      adapter: null,
      learningRate: 1,
      rollouts: 2,
      sampledTokens: 2,
      seed: 1,
      adapterType: "f32" as const,
      signal,
      onAsk: async () => undefined,
      onProgress,
    };
    await expect(updater.update(request)).rejects.toThrow("the learner's model does not fit into memory");
    expect({ starts, said }).toEqual({ starts: 1, said: [] });
  });

  it("is replaced once when it dies, from the checkpoint in force", async () => {
    const died = fails(new LearnerDied("was ended by SIGKILL", [], "log"));
    const { update, log, said } = updaterOf("run", [died, good]);
    await update();
    expect(log).toEqual(["start c1", "step 1024", "close", "start c1", "step 1024"]);
    expect(said[0]).toContain("was ended by SIGKILL");
    const twice = updaterOf("run", [died, died]);
    await expect(twice.update()).rejects.toThrow(LearnerDied);
  });

  it("is not asked again what it refused", async () => {
    const { update, log } = updaterOf("run", [fails(new LearnerRefused("no"))]);
    await expect(update()).rejects.toThrow("no");
    expect(log).toEqual(["start c1", "step 1024"]);
  });

  it("is not asked what a guard refuses, though it had been asked before", async () => {
    const { updater, log } = updaterOf("run", [fails(new LearnerOutOfMemory("full")), good]);
    const onAsk = async ({ microBatchTokens }: StepSettings) => {
      if (microBatchTokens < 1024) throw new HoneError("not that");
    };
    const { signal } = new AbortController();
    await expect(updater.update({ ...request, onAsk, signal })).rejects.toThrow("not that");
    expect(log).toEqual(["start c", "step 1024"]);
  });

  it("takes smaller micro-batches when memory runs out, and keeps to them", async () => {
    const full = fails(new LearnerOutOfMemory("full"));
    const { update, log, said } = updaterOf("run", [full, good, good]);
    await update();
    await update();
    expect(log).toEqual(["start c1", "step 1024", "step 512", "step 512"]);
    expect(said[0]).toContain("--micro-batch-tokens 512 instead of 1024");
    const never = updaterOf("run", [full, full, full, full]);
    await expect(never.update()).rejects.toThrow("full");
    expect(never.log).toEqual(["start c1", "step 1024", "step 512", "step 256"]);
  });

  it("is heard once, also where a new one finds the same each time", async () => {
    const noting: Step = async () => ({ ...metricsOf(), notes: ["the learner goes without compiled layers"] });
    const { update, said } = updaterOf("step", [noting, good, noting]);
    for (let i = 0; i < 3; i++) await update();
    expect(said).toEqual(["the learner goes without compiled layers"]);
  });

  it("is ended when the run is interrupted", async () => {
    const stop = new AbortController();
    const { update, log } = updaterOf("run", [
      async () => {
        stop.abort();
        throw new LearnerDied("was closed", [], "log");
      },
    ]);
    await expect(update(stop.signal)).rejects.toThrow("was closed");
    expect(log).toEqual(["start c1", "step 1024", "close"]);
  });
});

describe("the learner of a run", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "hone-updater-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const updaterWith = (python: UpdaterSources["python"], saw = (): void => undefined, parameters = 1e9) =>
    openUpdater({
      run: { logFile: (name: string) => join(folder, name), saw },
      model: "model.gguf",
      settings: {
        loss: "dapo",
        seed: 1,
        loraRank: 4,
        loraAlpha: 8,
        loraTargets: ["q_proj"],
      },
      config: { learner: "peft", learnerLifetime: "run", precision: "f32" },
      fitted: { microBatchTokens: 1024, gradientCheckpointing: false, shape: { parameters } },
      place: { device: "cpu", apart: false },
      threads: 1,
      python,
      log: () => undefined,
    } as unknown as UpdaterSources);

  it.each([
    [5e7, { betas: [0.9, 0.95], weightDecay: 0 }],
    [1e9, { betas: [0.9, 0.99], weightDecay: 0.1 }],
  ])("is opened with the run's adapter, and with Adam's numbers for %d parameters", async (parameters, optimizer) => {
    const python = join(folder, "python");
    // Says hello, and keeps what it is asked.
    const hello = JSON.stringify({ type: "hello", version: PROTOCOL_VERSION, pid: 1, python: "" });
    writeFileSync(python, `#!/bin/sh\necho '${hello}' >&4\nhead -n 1 <&3 > ${folder}/asked\n`);
    chmodSync(python, 0o755);
    const updater = updaterWith(async () => python, undefined, parameters);
    await expect(updater.prepare(undefined)).rejects.toThrow(LearnerDied);
    const lora = { rank: 4, alpha: 8, targets: ["q_proj"] };
    expect(JSON.parse(readFileSync(join(folder, "asked"), "utf8"))).toMatchObject({ type: "open", lora, optimizer });
    await updater.close();
  });

  it("is ended when its facts cannot be recorded, on a full disk for example", async () => {
    const python = join(folder, "python");
    const fake = join(packageRoot, "test/learn/fake_learner.py");
    writeFileSync(python, `#!/bin/sh\necho $$ > ${folder}/pid\nexec ${anyPython()} ${fake} plain\n`);
    chmodSync(python, 0o755);
    const updater = updaterWith(
      async () => python,
      () => {
        throw new Error("database or disk is full");
      },
    );
    await expect(updater.prepare(undefined)).rejects.toThrow("disk is full");
    const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
    await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), 300_000);
    await updater.close();
  });

  it("is installed when it is first wanted: what fails there is told as it is", async () => {
    const python = vi.fn(async () => {
      throw new HoneError("the package index cannot be reached");
    });
    const updater = updaterWith(python);
    expect(python).not.toHaveBeenCalled();
    const ask = () => updater.update({ signal: new AbortController().signal } as UpdateRequest);
    const missing = "the package index cannot be reached";
    await expect(updater.prepare(undefined)).rejects.toThrow(missing);
    expect(python).toHaveBeenCalledTimes(1);
    // Whoever wants it next looks again.
    await expect(ask()).rejects.toThrow(missing);
    await expect(updater.prepare(undefined)).rejects.toThrow(missing);
    expect(python).toHaveBeenCalledTimes(3);
    await updater.close();
  });

  it("is not installed to the end when the run is closed before", async () => {
    const updater = updaterWith(
      (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    );
    const preparing = expect(updater.prepare(undefined)).rejects.toThrow();
    await updater.close();
    await preparing;
  });
});

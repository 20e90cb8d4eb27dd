import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { LearnerDied, LearnerFailed, LearnerOutOfMemory, LearnerRefused } from "../../src/core/learn/errors.js";
import { startLearner } from "../../src/core/learn/learner.js";
import type { Deadlines } from "../../src/core/learn/types.js";
import { cacheHome, packageRoot } from "../../src/core/util/paths.js";
import { anyPython } from "../support/python.js";
import { settings, step } from "./support.js";

const python = anyPython();
const fake = join(packageRoot, "test/learn/fake_learner.py");
let log: string;

beforeEach(() => {
  log = join(mkdtempSync(join(tmpdir(), "hone-learner-")), "logs", "learner.log");
});

const start = (behaviour: string, deadlines: Partial<Deadlines> = {}) =>
  startLearner({ ...settings(python, log), deadlines }, { module: [fake, behaviour] });

/** Whether it still runs. A dead process whose parent is dead too may wait a while to be reaped: state Z. */
function alive(pid: number): boolean {
  const { stdout } = spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" });
  return stdout.trim() !== "" && !stdout.trim().startsWith("Z");
}

/** Whether the process ends. A busy machine may take its time; what stays, stays for longer than this. */
async function gone(pid: number): Promise<boolean> {
  for (const until = Date.now() + 300_000; alive(pid) && Date.now() < until; ) await sleep(20);
  return !alive(pid);
}

async function stepError(behaviour: string, deadlines: Partial<Deadlines> = {}): Promise<Error> {
  const learner = await start(behaviour, deadlines);
  const error = await learner.step(step).then(
    () => new Error("no error came"),
    (thrown: unknown) => thrown as Error,
  );
  await learner.close();
  expect(await gone(learner.pid)).toBe(true);
  return error;
}

describe("the learner's process", () => {
  it("is heard through whatever it prints, which goes to the log", async () => {
    // As images of containers set it.
    vi.stubEnv("PYTHONDONTWRITEBYTECODE", "1");
    // Without UTF-8, as where LANG is en_US.
    vi.stubEnv("LC_ALL", "C");
    vi.stubEnv("PYTHONUTF8", "0");
    const learner = await start("noise");
    expect(learner.info.architecture).toBe("qwen2");
    await learner.close();
    expect(readFileSync(log, "utf8")).toContain("noise on stdout");
    expect(readFileSync(log, "utf8")).toContain("on stderr");
    // It keeps compiled kernels in the user's cache, which a reboot does not empty.
    const folder = process.env.TORCHINDUCTOR_CACHE_DIR ?? join(cacheHome(), "hone", "kernels");
    expect(readFileSync(log, "utf8")).toContain(`kernels in ${folder}`);
    expect(readFileSync(log, "utf8")).toContain("keeps compiled modules: True");
    expect(readFileSync(log, "utf8")).toContain("names of files in utf-8");
    vi.unstubAllEnvs();
  });

  it("ends at once when it is closed, idle or in mid-step, and so do the processes it started", async () => {
    const learner = await start("with a worker");
    const worker = await new Promise<number>((resolve) => {
      const pending = learner.step({ ...step, onProgress: ({ done }) => resolve(done) });
      pending.catch((error: unknown) => expect(error).toBeInstanceOf(LearnerDied));
    });
    expect(alive(worker)).toBe(true);
    // What does not end by itself is killed after some seconds, which do not pass here.
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    try {
      await learner.close();
    } finally {
      vi.useRealTimers();
    }
    expect(await gone(learner.pid)).toBe(true);
    expect(await gone(worker)).toBe(true);
  });

  it("is reported with its last line when it dies", async () => {
    const error = await stepError("die");
    expect(error).toBeInstanceOf(LearnerDied);
    expect(error.message).toMatch(/was ended by SIGSEGV; its last line: Segmentation fault in some kernel \(log: /);
    expect((error as LearnerDied).lastLines.at(-1)).toBe("Segmentation fault in some kernel");
  });

  it.runIf(process.platform === "linux")("gives freed memory back, also between blocks still in use", async () => {
    const { message } = await stepError("free");
    // 30 of 60 blocks of 2 MB, by glibc's own count; by itself it keeps all of them.
    const held = Number(/held (\d+)/.exec(message)?.[1]);
    expect(held).toBeGreaterThan(55e6);
    expect(held).toBeLessThan(80e6);
  });

  it.each([
    ["refused", LearnerRefused, /^refused, it said$/],
    ["memory", LearnerOutOfMemory, /^memory, it said$/],
    ["failed", LearnerFailed, /^failed, it said \(log: /],
    ["garbage", LearnerFailed, /no message: not JSON: Unsloth: welcome!/],
    ["unknown answer", LearnerFailed, /not a known message: .*greeting/],
    ["wrong result", LearnerFailed, /the learner's answer to step is wrong/],
  ])("answers %s with an error of its kind", async (behaviour, kind, message) => {
    const error = await stepError(behaviour);
    expect(error).toBeInstanceOf(kind);
    expect(error.message).toMatch(message);
  });

  it("is ended when it makes no progress once it is asked, although it beats; not for idling before", async () => {
    const learner = await start("hang", { progress: 2 });
    await sleep(2500);
    const asked = performance.now();
    const error = await learner.step(step).catch((thrown: unknown) => thrown as Error);
    expect(performance.now() - asked).toBeGreaterThan(2000);
    expect(error).toBeInstanceOf(LearnerDied);
    expect((error as Error).message).toMatch(/made no progress for 2 seconds/);
    expect(await gone(learner.pid)).toBe(true);
  });

  it("is waited for while another of its ranks makes progress", async () => {
    const error = await stepError("waits", { progress: 4 });
    expect(error.message).toBe("waited, it said");
  });

  it("is ended when its interpreter gives no sign of life", async () => {
    const error = await stepError("mute", { beat: 2 });
    expect(error.message).toMatch(/gave no sign of life for 2 seconds/);
  });

  it("is not taken for dead when this process was too busy to listen", async () => {
    const learner = await start("hang", { beat: 3 });
    const pending = learner.step(step).catch((error: unknown) => error);
    // As deaf as if it computed.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);
    await sleep(1000);
    expect(alive(learner.pid)).toBe(true);
    await learner.close();
    expect(await pending).toBeInstanceOf(LearnerDied);
  });

  it("is said to have run out of memory when it was killed outright", async () => {
    const learner = await start("hang");
    const pending = learner.step(step).catch((error: unknown) => error);
    process.kill(learner.pid, "SIGKILL");
    expect(String(await pending)).toMatch(/was killed: if nobody did that, memory ran out/);
    await learner.close();
  });

  it.each([
    ["silent", LearnerDied, /did not start within 1 seconds/],
    ["wrong version", LearnerRefused, /speaks protocol 99, hone speaks 1/],
    ["import error", LearnerDied, /ended with code 1; its last line: ImportError: no module named torch/],
  ])("does not start when it is %s", async (behaviour, kind, message) => {
    const error = await start(behaviour, behaviour === "silent" ? { start: 1 } : {}).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(kind);
    expect((error as Error).message).toMatch(message);
  });

  it("says which Python it could not start", async () => {
    const error = startLearner(settings("/nowhere/python", log)).catch((thrown: unknown) => thrown);
    expect(String(await error)).toMatch(
      /could not be started with \/nowhere\/python: there is no such program.*--python/,
    );
  });

  it.each([
    ["is missing", "import nowhere_to_be_found", /has no nowhere_to_be_found: the learner needs torch, /],
    [
      "is broken",
      'raise OSError("libcudart.so: cannot open\\nmore")',
      /cannot load .*\(OSError: libcudart\.so: cannot open\); install/,
    ],
  ])("says in one line which package %s", async (_, torch, message) => {
    const packages = mkdtempSync(join(tmpdir(), "hone-packages-"));
    writeFileSync(join(packages, "torch.py"), torch);
    const lacking = join(packages, "python");
    writeFileSync(lacking, `#!/bin/sh\nPYTHONPATH=$PYTHONPATH:${packages} exec ${python} "$@"\n`, { mode: 0o755 });
    const error = await startLearner(settings(lacking, log)).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LearnerRefused);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain("\n");
  });

  it("takes no modules, and no library, of another Python that the shell names", async () => {
    const packages = mkdtempSync(join(tmpdir(), "hone-packages-"));
    writeFileSync(join(packages, "json.py"), 'raise ImportError("of another Python")');
    vi.stubEnv("PYTHONPATH", packages);
    vi.stubEnv("PYTHONHOME", packages);
    const learner = await start("noise");
    vi.unstubAllEnvs();
    expect(learner.info.architecture).toBe("qwen2");
    await learner.close();
  });

  it("is ended while it loads when its start is called off", async () => {
    const stop = new AbortController();
    const loading = startLearner(settings(python, log), { module: [fake, "silent"], signal: stop.signal });
    const error = loading.catch((thrown: unknown) => thrown);
    await sleep(100);
    stop.abort();
    // It sleeps for longer than this test may take.
    expect(await error).toBeInstanceOf(LearnerDied);
  });

  it("takes one request at a time", async () => {
    const learner = await start("hang");
    const first = learner.step(step).catch((error: unknown) => error);
    await sleep(50);
    await expect(learner.step(step)).rejects.toThrow(/busy/);
    await learner.close();
    expect(await first).toBeInstanceOf(LearnerDied);
    await expect(learner.step(step)).rejects.toBeInstanceOf(LearnerDied);
  });

  it.each(["SIGKILL", "SIGTERM"] as const)("dies with hone when that gets a %s, in mid-step", async (signal) => {
    const told = JSON.stringify({ settings: settings(python, log), step, behaviour: "with a worker" });
    const parent = spawn(process.execPath, [join(packageRoot, "test/learn/parent.mjs"), told], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const pids: number[] = [];
    for await (const line of createInterface({ input: parent.stdout })) {
      pids.push(Number(line));
      if (pids.length === 2) break;
    }
    const [learner = 0, worker = 0] = pids;
    expect(alive(learner) && alive(worker)).toBe(true);
    parent.kill(signal);
    expect(await gone(learner)).toBe(true);
    expect(await gone(worker)).toBe(true);
  });
});

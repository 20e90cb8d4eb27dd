import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Check } from "../../src/hone/doctor/check.js";
import { checkCard } from "../../src/hone/doctor/gpu.js";
import { atLeast } from "../../src/hone/doctor/machine.js";
import { checkPython } from "../../src/hone/doctor/python.js";
import { adapterCheck, updateCheck } from "../../src/hone/doctor/try.js";
import { pinned } from "../../src/machine/python/declared.js";
import { listCards, program } from "../support/nvidia.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-doctor-test-"));

afterEach(() => {
  vi.unstubAllEnvs();
});

function doctor(flags: readonly string[], bin?: string) {
  const path = [...(bin === undefined ? [] : [bin]), process.env.PATH].join(delimiter);
  const { CUDA_VISIBLE_DEVICES: _, ...env } = process.env;
  const args = [join(packageRoot, "dist/src/cli.js"), "doctor", "--home", join(folder, "home"), ...flags];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    env: { ...env, PATH: path },
  });
  return { status, stdout, stderr };
}

function checksOf(stdout: string): Map<string, Check> {
  const { checks } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { checks: Check[] };
  return new Map(checks.map((check) => [check.name, check]));
}

const states = (checks: Map<string, Check>) =>
  Object.fromEntries([...checks.values()].map(({ name, state }) => [name, state]));

describe("yarn doctor", () => {
  beforeAll(() => ensureLearnerPython(), 900_000);

  it("plays, learns and takes the adapter back on the CPU, whatever driver --gpu off leaves alone", () => {
    const bin = join(folder, "unused");
    listCards(bin, { driver: "470.57.02", capability: "8.6", names: ["NVIDIA Old"] });
    const { status, stdout, stderr } = doctor(["--gpu", "off", "--json"], bin);
    const checks = checksOf(stdout);
    expect(status, stderr).toBe(0);
    expect(states(checks)).toMatchObject({
      // A note on a version that gets no more fixes.
      node: Number(process.versions.node.split(".")[0]) < 22 ? "note" : "ok",
      memory: "ok",
      gpu: "note",
      driver: "none",
      cuda: "none",
      addon: "ok",
      "llama.cpp": "ok",
      python: "ok",
      torch: "ok",
      rollouts: "ok",
      update: "ok",
      adapter: "ok",
    });
    expect(checks.get("rollouts")?.found).toMatch(
      /^CPU, .*F16 weights, F16 KV, flash attention, \d threads?, passes of 32 tokens, llama\.cpp .* tokens\/s$/,
    );
    expect(checks.get("rollouts")?.facts).toMatchObject({ compute: { backend: "cpu", offloadedLayers: 0 } });
    expect(checks.get("update")?.found).toMatch(/^cpu, f32; .* nats from the engine$/);
    // The engine plays the policy after the update, not the one before.
    const { after, before } = checks.get("adapter")?.facts ?? {};
    expect(after).toBeLessThan(Number(before) / 3);
    expect(stderr).toContain("all is well");
  });

  it("says of a driver that is too old which one is needed, and that the card is not used", () => {
    const bin = join(folder, "old");
    listCards(bin, { driver: "470.57.02", capability: "8.6", names: ["NVIDIA Old"] });
    const { status, stdout } = doctor(["--json"], bin);
    const checks = checksOf(stdout);
    expect(status).toBe(1);
    expect(states(checks)).toMatchObject({ gpu: "ok", driver: "wrong", rollouts: "wrong", update: "none" });
    expect(checks.get("driver")?.mend).toMatch(/470\.57\.02 is too old.*needs 525 or newer|newer NVIDIA driver/);
    // Not silently on the CPU.
    expect(checks.get("rollouts")?.mend).toMatch(/470\.57\.02.*--gpu off/);
  });

  it("finds a PyTorch that does not serve the card, and leaves everything as it is", () => {
    const bin = join(folder, "new");
    listCards(bin, { driver: "590.44.01", capability: "8.9", names: ["NVIDIA New"] });
    const { status, stdout, stderr } = doctor(["--json"], bin);
    const checks = checksOf(stdout);
    expect(status).toBe(1);
    expect(states(checks)).toMatchObject({ gpu: "ok", driver: "ok", torch: "wrong", cuda: "wrong", rollouts: "wrong" });
    expect(checks.get("cuda")?.mend).toContain("doctor --install");
    expect(stderr).not.toContain("making a Python environment");
  });

  it("tries no update with a Python that cannot learn, and says how to mend it", () => {
    const python = program(join(folder, "python"), "python", "echo 'no module named torch' >&2; exit 1");
    const { status, stdout, stderr } = doctor(["--gpu", "off", "--python", python]);
    expect(status).toBe(1);
    expect(stdout).toMatch(/WRONG python +\S+ does not answer: no module named torch\n +→ give another --python/);
    expect(stdout).toMatch(/- +update +not tried: there is no Python that could learn/);
    expect(stdout).toMatch(/ok +rollouts/);
    expect(stderr).toContain("to be mended: python");
    expect(stderr).not.toContain("    at ");
  });

  it("keeps the learner's log that it names, and nothing else", () => {
    const facts = JSON.stringify(factsWith({ executable: join(folder, "fails/python") }));
    const fails = `if [ "$2" = learner ]; then echo 'RuntimeError: no kernel image' >&2; exit 1; fi`;
    const given = program(join(folder, "fails"), "python", `${fails}\necho '${facts}'`);
    const { status, stdout } = doctor(["--gpu", "off", "--python", given, "--json"]);
    const update = checksOf(stdout).get("update");
    expect(status).toBe(1);
    expect(update).toMatchObject({ state: "wrong", mend: expect.stringContaining("RuntimeError: no kernel image") });
    const log = /\(log: (\S+)\)/.exec(update?.mend ?? "")?.[1] ?? "no log";
    expect(readFileSync(log, "utf8")).toContain("RuntimeError: no kernel image");
    expect(readdirSync(dirname(log))).toEqual([basename(log)]);
    rmSync(dirname(log), { recursive: true });
  });

  it("has told what it found before an addon that ends the process as it loads", () => {
    const abort = join(folder, "abort.cjs");
    writeFileSync(abort, "process.dlopen = (_, file) => /hone/.test(file.split('/').at(-1)) && process.abort();");
    vi.stubEnv("NODE_OPTIONS", `--require=${abort}`);
    const { status, stdout } = doctor(["--gpu", "off"]);
    expect(status).not.toBe(0);
    expect(stdout).toMatch(/node .*\n.*memory .*\n.*disk /s);
    expect(stdout).not.toMatch(/addon|rollouts/);
  });

  it("refuses a card that is not there in one line", () => {
    const bin = join(folder, "one");
    listCards(bin, { names: ["NVIDIA One"] });
    const { status, stderr } = doctor(["--device", "7"], bin);
    expect(status).toBe(2);
    expect(stderr).toMatch(/^hone: --device 7 names no NVIDIA GPU.*NVIDIA One/m);
  });
});

/** A Python that says of itself what the learner's does, but for these facts. */
function python(name: string, differently: object): string {
  return program(join(folder, name), "python", `echo '${JSON.stringify(factsWith(differently))}'`);
}

function factsWith(differently: object): object {
  const packages = { ...Object.fromEntries(pinned()), unsloth: null, unsloth_zoo: null };
  const torch = { version: "2.13.0", cuda: null, seesGpu: false, gpu: null };
  const tools = { compiler: "/usr/bin/gcc", headers: true };
  return { python: "3.12.0", executable: "/bin/python", packages, torch, ...tools, ...differently };
}

it("a machine without a Python that makes the learner's environment is told before a training", async () => {
  const bin = join(folder, "old");
  program(bin, "python3", "echo 3 8");
  vi.stubEnv("PATH", bin);
  vi.stubEnv("XDG_CACHE_HOME", join(folder, "nothing-made"));
  const { checks } = await checkPython(undefined, "auto", undefined);
  expect(checks).toMatchObject([{ name: "python", state: "wrong", mend: expect.stringContaining("--install") }]);
  expect(checks[0]?.found).toMatch(/^learning needs Python 3\.\d+ to 3\.\d+: python3 is 3\.8; install one \(or uv/);
  program(bin, "python3", "echo 3 12");
  const { checks: able } = await checkPython(undefined, "auto", undefined);
  expect(able).toMatchObject([{ name: "python", state: "none" }]);
});

describe("what compiles the learner's layers", () => {
  const torch = { version: "2.13.0+cu130", cuda: "13.0", seesGpu: true, gpu: "NVIDIA New" };
  const check = async (name: string, facts: object, learner: "auto" | "peft" | "unsloth" = "auto") => {
    const { checks } = await checkPython(python(name, facts), learner, undefined);
    return checks.find((one) => one.name === "compiler");
  };

  it("is not looked for without CUDA", async () => {
    expect(await check("on-cpu", { compiler: null, headers: false })).toMatchObject({ state: "none" });
  });

  it("is a C compiler and Python's headers, and doctor says which is missing", async () => {
    expect(await check("both", { torch })).toMatchObject({ state: "ok", found: "/usr/bin/gcc, and Python's headers" });
    const mend = expect.stringContaining("apt install gcc python3-dev");
    const slower = "the learner's layers cannot be compiled, and it is slower";
    expect(await check("neither", { torch, compiler: null, headers: false })).toMatchObject({
      state: "note",
      found: `no C compiler and no Python.h: ${slower}`,
      mend,
    });
    expect(await check("no-headers", { torch, headers: false })).toMatchObject({
      found: `no Python.h: ${slower}`,
      mend,
    });
  });

  it("is wrong to lack where Unsloth computes, whose kernels nothing else computes", async () => {
    const packages = { ...Object.fromEntries(pinned()), unsloth: pinned("unsloth-cpu").get("unsloth") ?? "" };
    const facts = { torch, headers: false, packages };
    const found = "no Python.h: Unsloth's kernels cannot be compiled, and no update can be made with it";
    expect(await check("unsloth", facts, "unsloth")).toMatchObject({
      state: "wrong",
      found,
      mend: expect.stringMatching(/apt install gcc python3-dev.*--learner peft/),
    });
    for (const learner of ["auto", "peft"] as const)
      expect(await check(`unsloth-${learner}`, facts, learner)).toMatchObject({ state: "note" });
  });
});

describe("PyTorch", () => {
  const check = async (name: string, torch: object, card: string | undefined) => {
    const { checks } = await checkPython(python(name, { torch }), "auto", card);
    return checks.find((one) => one.name === "torch");
  };
  const card = "0 NVIDIA New (GPU-11111111)";
  const forCpu = { version: "2.13.0+cpu", cuda: null, seesGpu: false, gpu: null };
  const forCuda = { ...forCpu, version: "2.13.0+cu130", cuda: "13.0" };

  it("is right on a card when it sees that", async () => {
    expect(await check("sees", { ...forCuda, seesGpu: true, gpu: "NVIDIA New" }, card)).toMatchObject({ state: "ok" });
    expect(await check("no-card", forCpu, undefined)).toMatchObject({ state: "ok" });
  });

  it("is wrong on a card when its build is for the CPU, or sees no card", async () => {
    expect(await check("for-cpu", forCpu, card)).toMatchObject({
      state: "wrong",
      found: `PyTorch 2.13.0+cpu, a build for the CPU, sees no NVIDIA GPU, but there is ${card}`,
      mend: expect.stringMatching(/^a build for CUDA is needed: .*, or give --gpu off$/),
    });
    expect(await check("blind", forCuda, card)).toMatchObject({
      state: "wrong",
      mend: expect.stringContaining("driver"),
    });
  });
});

describe("Unsloth", () => {
  const check = async (name: string, version: string | null, learner: "auto" | "unsloth") => {
    const packages = { ...Object.fromEntries(pinned()), unsloth: version, unsloth_zoo: version };
    const { checks } = await checkPython(python(name, { packages }), learner, undefined);
    return checks.find((one) => one.name === "unsloth");
  };

  it("is an extra, and doctor says how to add it; asked for and missing, it is wrong", async () => {
    expect(await check("without", null, "auto")).toMatchObject({
      state: "none",
      found: "not installed; an extra that `yarn doctor --install --learner unsloth` adds",
    });
    expect(await check("missing", null, "unsloth")).toMatchObject({
      state: "wrong",
      mend: expect.stringContaining("`yarn doctor --install --learner unsloth`"),
    });
  });

  it("is said to be there with who takes it, and in which version it was tested", async () => {
    expect(await check("tested", pinned("unsloth-cpu").get("unsloth") ?? "", "auto")).toMatchObject({
      state: "ok",
      found: expect.stringContaining("`--learner unsloth` takes it, auto PEFT"),
    });
    expect(await check("other", "2025.1.1", "unsloth")).toMatchObject({
      state: "note",
      found: `Unsloth 2025.1.1 (tested: ${pinned("unsloth-cpu").get("unsloth") ?? ""})`,
    });
  });
});

describe("a card", () => {
  const problem = "nvidia-smi fails: NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver";
  const broken = { nvidia: { gpus: [], driver: undefined, problem }, hidden: false, card: undefined, cuda: undefined };

  it("whose driver does not answer is wrong, with the driver's own words", () => {
    const check = checkCard(broken, "auto");
    expect(check).toMatchObject({ state: "wrong", found: problem });
    expect(check.mend).toContain("--gpu off");
  });

  it("that CUDA_VISIBLE_DEVICES hides is not looked at", () => {
    expect(checkCard({ ...broken, hidden: true }, "auto")).toMatchObject({ state: "none" });
  });
});

it.each([
  ["v20.20.2", "20.19", true],
  ["v20.19.0", "20.19", true],
  ["v20.18.9", "20.19", false],
  ["v22.0.0", "20.19", true],
  ["v18.99.0", "20.19", false],
])("%s is %s or newer: %o", (version, wanted, expected) => {
  expect(atLeast(version, wanted)).toBe(expected);
});

describe("the trial's update", () => {
  const learner = { backend: "peft" as const, device: "cpu", precision: "f32" as const };
  const check = ({ notes = [] as string[], mismatch = 1e-4 }) =>
    updateCheck(
      learner,
      {
        seconds: { update: 1, save: 0, checks: 0, total: 1 },
        memory: { peak: 1e9, loaded: 1e9 },
        mismatch: { mean: mismatch, p99: mismatch, max: mismatch },
        notes,
      },
      { loadSeconds: 1, limit: 0.02 },
    );

  it("is worth a note where the learner is slower than it could be, with the learner's own words", () => {
    const notes = ["the learner compiles nothing on cuda:0, and is slower for it: there is no C compiler"];
    expect(check({ notes })).toMatchObject({ state: "note", mend: notes[0] });
    expect(check({})).toMatchObject({ state: "ok" });
  });

  it("is wrong where engine and learner differ, whatever the notes", () => {
    expect(check({ notes: ["slower"], mismatch: 0.03 })).toMatchObject({ state: "wrong" });
  });
});

describe("the adapter after the trial's update", () => {
  const state = (after: number, before: number) => adapterCheck({ after, before }).state;

  it("is played where the engine is nearer to the learner's new policy", () => expect(state(0.002, 0.03)).toBe("ok"));
  it("is not where the engine gives the policy before, however near both are", () => {
    expect(state(0.03, 0.0001)).toBe("wrong");
    expect(state(0.0006, 0.0005)).toBe("wrong");
  });
});

/** The real vLLM on a CPU, in f32, with the tiny model. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type LocalEngine, loadEngine, type OwnServerOptions } from "../../../src/engine/index.js";
import { linesTo, modelFolder } from "../../../src/models/index.js";
import { ensureVllm } from "../../../src/python-env/index.js";
import { packageRoot, spawnTied } from "../../../src/util/index.js";
import { freePort } from "../../support/free-port.js";
import { CONTEXT, largest, localEngine, model, newFolder, prompt, vllmOptions, writeAdapter } from "./support.js";

/**
 * Mean distance of engine and learner, both in f32: sums of at most 640 products of 2⁻²⁴, in four layers, and logits below 20.
 * A cache in f16, as llama.cpp's, is apart by 2⁻¹¹ of its size.
 */
const F32 = 1e-4;

const home = newFolder();
const cli = join(packageRoot, "dist/src/cli.js");
let python: string;
let environment: Readonly<Record<string, string>>;
let folder: string;
let ours: LocalEngine;

beforeAll(async () => {
  const silent = () => undefined;
  const given = process.env.VLLM_TEST_PYTHON;
  ({ python, environment } = await ensureVllm({ given, cuda: false, onProgress: silent }));
  folder = await modelFolder(model, { home, python: undefined }, linesTo(silent));
  ours = await localEngine();
});
afterAll(() => ours.close());

const variables = () => ({ ...environment, VLLM_CPU_KVCACHE_SPACE: "1", OMP_NUM_THREADS: "1" });

interface Server {
  readonly url: string;
  kill(): Promise<void>;
}

/** As docs/vllm.md says. */
async function startServer(port: number): Promise<Server> {
  const limits = ["--max-model-len", String(CONTEXT + 1), "--max-lora-rank", "16", "--max-loras", "2"];
  const right = ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--dtype", "float32"];
  const { process: child, kill } = spawnTied(
    python,
    [
      ...["-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", "base"],
      ...["--host", "127.0.0.1", "--port", String(port), "--enable-lora", "--enforce-eager", ...limits, ...right],
    ],
    { stdio: ["ignore", "ignore", "ignore"], ownGroup: true, env: { ...process.env, ...variables() } },
  );
  const url = `http://127.0.0.1:${port}`;
  while (child.exitCode === null && child.signalCode === null) {
    const ready = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (ready) break;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  if (child.exitCode !== null) throw new Error(`vLLM ended with ${child.exitCode}`);
  return {
    url,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      kill();
      await ended;
    },
  };
}

/** What a child has said so far, and a promise of what it will have said. */
function listen(child: ChildProcess) {
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  }
  const until = async (words: RegExp) => {
    while (!words.test(said)) {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode} before ${words}: ${said}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  return { said: () => said, until };
}

it("three training steps, both servers killed in the second and one brought back: every step once, engine and learner as near as f32", async () => {
  const ports = [await freePort(), await freePort()] as const;
  const servers = await Promise.all(ports.map(startServer));
  const db = join(home, "mail.db");
  const build = ["build-db", "--home", home, "--db", db];
  expect(spawnSync(process.execPath, [cli, ...build]).status).toBe(0);
  const child = spawn(
    process.execPath,
    [
      ...[cli, "train", "--home", home, "--db", db, "--model", "tiny", "--run", "real", "--steps", "3", "--gpu", "off"],
      ...["--groups-per-step", "4", "--group-size", "4", "--validate-n", "2", "--context", String(CONTEXT)],
      ...["--engine", "vllm", "--engine-url", servers.map(({ url }) => url).join()],
    ],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  const { said, until } = listen(child);
  let again: Server | undefined;
  try {
    await until(/^ *1\/3 /m);
    await Promise.all(servers.map((server) => server.kill()));
    await until(/no vLLM server answers: rollouts wait/);
    again = await startServer(ports[0]);
    if (child.exitCode === null) await once(child, "exit");
    expect(child.exitCode, said()).toBe(0);
    expect(said()).toMatch(/answers, and plays again/);
    const run = join(home, "email/models/real");
    const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    const steps = lines.map((line) => JSON.parse(line));
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3]);
    expect(steps.map(({ rollouts }) => rollouts)).toEqual([16, 16, 16]);
    const trained = steps.filter(({ mismatch }) => mismatch !== null);
    expect(trained.length).toBeGreaterThan(0);
    for (const { mismatch, probe } of trained) {
      expect(mismatch.mean).toBeLessThan(F32);
      expect(probe.after).toBeLessThan(F32);
    }
    expect(readdirSync(join(home, "engine-adapters"))).toEqual([]);
  } finally {
    child.kill("SIGKILL");
    await Promise.all([...servers, again].map((server) => server?.kill()));
  }
});

const own = (rests: OwnServerOptions["rests"]): OwnServerOptions => ({
  ...{ python, environment: variables(), folder, dtype: "float32", gpu: false, memoryShare: 0.5, rests },
  logFile: join(home, "vllm.log"),
});

it("hone's own server is ended while the learner computes, and plays the adapter in force when it is there again", async () => {
  const urls = [`http://127.0.0.1:${await freePort()}`];
  const engine = await loadEngine(vllmOptions([], { urls, own: own("stops") }));
  try {
    const file = await writeAdapter("own");
    await engine.useAdapter(file);
    const before = await engine.score(prompt(ours));
    expect(largest(before, await ours.score(prompt(ours)))).toBeGreaterThan(0.05);
    await engine.sleep();
    await expect(fetch(`${urls[0]}/health`)).rejects.toThrow();
    await engine.wake();
    expect(largest(await engine.score(prompt(ours)), before)).toBeLessThan(F32);
  } finally {
    await engine.close();
  }
  await expect(fetch(`${urls[0]}/health`)).rejects.toThrow();
});

/** Processes whose command line has these words. */
const processesWith = (words: string) =>
  readdirSync("/proc").filter((pid) => {
    const file = `/proc/${pid}/cmdline`;
    return /^\d+$/.test(pid) && existsSync(file) && readFileSync(file, "utf8").replaceAll("\0", " ").includes(words);
  });

it("nothing of hone's own server is left when hone is killed", async () => {
  const command = ["rollout", "--home", home, "--db", join(home, "mail.db"), "--model", "tiny", "--n", "500"];
  // With all of the model's context, to which vLLM's limit has to add a token.
  const engine = ["--engine", "vllm", "--engine-python", python, "--gpu", "off"];
  const child = spawn(process.execPath, [cli, ...command, ...engine], { stdio: ["ignore", "pipe", "pipe"] });
  await listen(child).until(/^engine: vLLM/m);
  expect(processesWith(`--model ${join(home, "folders")}`)).not.toEqual([]);
  child.kill("SIGKILL");
  await expect.poll(() => processesWith(`--model ${join(home, "folders")}`), { timeout: 60_000 }).toEqual([]);
});

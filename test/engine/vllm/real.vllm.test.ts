/** The real vLLM on a CPU, in f32, with the tiny model. */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { LocalEngine, OwnServerOptions } from "../../../src/core/engine/engine.js";
import { loadEngine } from "../../../src/engine/factory.js";
import { freePort } from "../../support/free-port.js";
import { cli, prepareVllm, type Server, startHone, startServer, type Vllm } from "./real-server.js";
import { CONTEXT, largest, localEngine, newFolder, prompt, vllmOptions, writeAdapter } from "./support.js";

/**
 * Mean distance of engine and learner, both in f32: sums of at most 640 products of 2⁻²⁴, in four layers, and logits below 20.
 * A cache in f16, as llama.cpp's, is apart by 2⁻¹¹ of its size.
 */
const F32 = 1e-4;

const home = newFolder();
let vllm: Vllm;
let ours: LocalEngine;

beforeAll(async () => {
  vllm = await prepareVllm(home);
  ours = await localEngine();
});
afterAll(() => ours.close());

it("three training steps on two servers by two ranks of the learner, both servers killed in the second and one brought back: every step once, engine and learner as near as f32", async () => {
  const ports = [await freePort(), await freePort()] as const;
  const servers = await Promise.all(ports.map((port) => startServer(vllm, port)));
  const db = join(home, "mail.db");
  const build = ["build-db", "--home", home, "--db", db];
  expect(spawnSync(process.execPath, [cli, ...build]).status).toBe(0);
  const { child, said, until, ended } = startHone([
    ...["train", "--home", home, "--db", db, "--model", "tiny", "--run", "real", "--steps", "3", "--gpu", "off"],
    ...["--groups-per-step", "2", "--group-size", "4", "--validate-n", "1", "--context", String(CONTEXT)],
    ...["--max-turns", "4", "--max-tokens", "100"],
    // Rollouts of the untrained model often have equal rewards, of which nothing is learnt; coins differ.
    ...["--control", "random-reward"],
    ...["--engine", "vllm", "--engine-url", servers.map(({ url }) => url).join()],
    ...["--learner-launch", "torchrun --nproc-per-node 2"],
  ]);
  let again: Server | undefined;
  try {
    await until(/^ *1\/3 /m);
    await Promise.all(servers.map((server) => server.kill()));
    await until(/no vLLM server answers: rollouts wait/);
    again = await startServer(vllm, ports[0]);
    expect(await ended(), said()).toBe(0);
    expect(said()).toMatch(/answers, and plays again/);
    const run = join(home, "email/models/real");
    const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    const steps = lines.map((line) => JSON.parse(line));
    expect(steps.map(({ step }) => step)).toEqual([1, 2, 3]);
    expect(steps.map(({ rollouts }) => rollouts)).toEqual([8, 8, 8]);
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
  ...{ ...vllm, dtype: "float32", gpu: false, memoryShare: 0.5, rests },
  logFile: join(home, "vllm.log"),
});

if (process.env.TEST_FULL) {
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
}

/** Processes whose command line has these words. */
const processesWith = (words: string) =>
  readdirSync("/proc").filter((pid) => {
    const file = `/proc/${pid}/cmdline`;
    return /^\d+$/.test(pid) && existsSync(file) && readFileSync(file, "utf8").replaceAll("\0", " ").includes(words);
  });

it("nothing of hone's own server is left when hone is killed", async () => {
  const command = ["rollout", "--home", home, "--db", join(home, "mail.db"), "--model", "tiny", "--n", "500"];
  // With all of the model's context, to which vLLM's limit has to add a token.
  const engine = ["--engine", "vllm", "--engine-python", vllm.python, "--gpu", "off"];
  const { child, until } = startHone([...command, ...engine]);
  await until(/^engine: vLLM/m);
  expect(processesWith(`--model ${join(home, "folders")}`)).not.toEqual([]);
  child.kill("SIGKILL");
  await expect.poll(() => processesWith(`--model ${join(home, "folders")}`)).toEqual([]);
});

/** vLLM servers that are killed while they play, and come back: on stand-ins. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { LocalEngine, OwnServerOptions } from "../../../src/core/engine/engine.js";
import { Board } from "../../../src/engine/vllm/board.js";
import { freePort } from "../../support/free-port.js";
import {
  CONTEXT,
  largest,
  localEngine,
  model,
  newFolder,
  openOn as open,
  prompt as promptOf,
  ROUNDING,
  type Served,
  startStandIn,
  writeAdapter,
} from "./support.js";

let ours: LocalEngine;
beforeAll(async () => {
  ours = await localEngine();
});
afterAll(() => ours.close());

const prompt = () => promptOf(ours);

describe("vLLM servers that die", () => {
  const turn = { maxTokens: 60, sampling: { seed: 3 }, stop: [] };

  it("give their turns to the others, and join again with the adapter in force", async () => {
    const [first, second] = [await startStandIn({ delay: 300 }), await startStandIn({ delay: 300 })];
    const log: string[] = [];
    const engine = await open([first, second], {}, log);
    await engine.useAdapter(await writeAdapter("kept"));
    const groups = [engine.openGroup(prompt(), 2), engine.openGroup(prompt(), 2)];
    const turns = groups.flat().map((sequence) => sequence.generate(turn));
    // Both have turns now: groups are spread by load.
    await new Promise((resolve) => setTimeout(resolve, 100));
    await first.kill();
    for (const { tokens, stop } of await Promise.all(turns)) expect([tokens.length, stop]).toEqual([60, "length"]);
    await expect.poll(() => engine.info.replicas).toBe(1);

    const again = await startStandIn({}, Number(new URL(first.url).port));
    await expect.poll(() => engine.info.replicas).toBe(2);
    const [one, two] = await Promise.all([engine.score(prompt()), engine.score(prompt())]);
    expect(largest(one, two)).toBeLessThan(ROUNDING);
    expect(largest(one, await ours.score(prompt()))).toBeGreaterThan(0.05);
    expect(log.join("\n")).toMatch(/answers, and plays again/);
    for (const sequence of groups.flat()) sequence.close();
    await engine.close();
    await Promise.all([again.kill(), second.kill()]);
  });

  it("none left: a turn waits beyond its time, and ends with the first that returns, or when it is aborted", async () => {
    const server = await startStandIn();
    const log: string[] = [];
    const engine = await open([server], {}, log);
    const [waiting, aborted] = engine.openGroup(prompt(), 2) as [
      ReturnType<Served["open"]>,
      ReturnType<Served["open"]>,
    ];
    await server.kill();
    const abort = new AbortController();
    const first = waiting.generate({ ...turn, seconds: 20 });
    const second = aborted.generate({ ...turn, signal: abort.signal });
    await expect.poll(() => log.join("\n")).toContain("no vLLM server answers: rollouts wait");
    abort.abort();
    expect((await second).stop).toBe("cancelled");
    const again = await startStandIn({}, Number(new URL(server.url).port));
    const { tokens, waitedSeconds } = await first;
    expect(tokens).toHaveLength(60);
    expect(waitedSeconds).toBeGreaterThan(0);
    await engine.close();
    await again.kill();
  });

  it("none left: the time in which one that a turn has lost is checked again is none of a turn's", async () => {
    const server = await startStandIn();
    const engine = await open([server]);
    const sequence = engine.open(prompt());
    Board.at(engine.shared.board).lose(0);
    const { tokens, waitedSeconds } = await sequence.generate(turn);
    expect(tokens).toHaveLength(60);
    expect(waitedSeconds).toBeGreaterThan(0);
    await engine.close();
    await server.kill();
  });

  it("none left: the owner's signal ends a score that waits for one", async () => {
    const server = await startStandIn();
    const interrupted = new AbortController();
    const log: string[] = [];
    const engine = await open([server], { signal: interrupted.signal }, log);
    await server.kill();
    const scored = engine.score(prompt());
    await expect.poll(() => log.join("\n")).toContain("no vLLM server answers: rollouts wait");
    interrupted.abort(new Error("interrupted"));
    await expect(scored).rejects.toThrow(/^interrupted$/);
    await engine.close();
  });

  it("none left: hone's own, which has died too often, is not waited for", async () => {
    const folder = newFolder();
    const python = join(folder, "python");
    const settings = JSON.stringify({ model, port: await freePort(), contextPerSequence: CONTEXT });
    const standIn = `'${process.execPath}' '${join(import.meta.dirname, "stand-in.mjs")}' '${settings}'`;
    const once = `[ -e ${folder}/pid ] && { echo Error: no memory; exit 1; }\necho $$ > ${folder}/pid\nexec ${standIn}\n`;
    const kept = "echo $PYTHONPATH$PYTHONHOME$PYTHONOPTIMIZE $PYTHONUTF8";
    writeFileSync(python, `#!/bin/sh\n${kept}\n${once}`, { mode: 0o755 });
    for (const name of ["PYTHONPATH", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONUTF8"]) vi.stubEnv(name, "0");
    const own: OwnServerOptions = {
      ...{ python, folder, dtype: "float32", gpu: false, memoryShare: 0.5, rests: "stays", environment: {} },
      logFile: join(folder, "vllm.log"),
    };
    const log: string[] = [];
    const urls = [`http://127.0.0.1:${JSON.parse(settings).port}`];
    const engine = await open([], { own, urls }, log);
    vi.unstubAllEnvs();
    // It takes nothing of the shell's Python, and names of files as Node has them.
    expect(readFileSync(own.logFile, "utf8")).toMatch(/^1\n/);
    const sequence = engine.open(prompt());
    process.kill(Number(readFileSync(join(folder, "pid"), "utf8")), "SIGKILL");
    await expect.poll(() => log.at(-1)).toContain("for the 6th time (Error: no memory) and is not started again");
    const gone = "the vLLM server that hone started has ended too often, and is not started again";
    await expect(sequence.generate(turn)).rejects.toThrow(gone);
    await expect(engine.score(prompt())).rejects.toThrow(gone);
    await expect(engine.useAdapter(await writeAdapter("unused"))).rejects.toThrow(gone);
    await engine.close();
  });
});

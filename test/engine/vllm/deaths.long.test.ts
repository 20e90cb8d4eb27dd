/** vLLM servers that are killed and come back while a run trains on them, at random moments: every step is taken once. */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { Random } from "../../../src/core/util/random.js";
import { freePort } from "../../support/free-port.js";
import { cli, prepareVllm, type Server, startHone, startServer } from "./real-server.js";
import { CONTEXT, newFolder, startStandIn } from "./support.js";

const home = newFolder();
const db = join(home, "mail.db");
const GROUPS = 4;
const SIZE = 4;

const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

/** Steps of a run's metrics, in the order of its file; none where it has not begun. */
function stepsOf(run: string) {
  const file = join(home, "email/models", run, "metrics.jsonl");
  return (existsSync(file) ? readFileSync(file, "utf8") : "")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { step: number; rollouts: number; mismatch: { mean: number } | null });
}

/**
 * Trains on two servers, kills one of them or both until `kills` were killed, starts each again, and interrupts the run; then the
 * same command takes one step more.
 *
 * @param most seconds between a death and the next event
 */
async function trainThroughDeaths(run: string, kills: number, most: number, start: (port: number) => Promise<Server>) {
  const random = new Random("deaths", run);
  const ports = [await freePort(), await freePort()];
  const servers = await Promise.all(ports.map(start));
  expect(spawnSync(process.execPath, [cli, "build-db", "--home", home, "--db", db]).status).toBe(0);
  const train = (steps: number) =>
    startHone([
      ...["train", "--home", home, "--db", db, "--model", "tiny", "--run", run, "--steps", String(steps)],
      ...["--groups-per-step", String(GROUPS), "--group-size", String(SIZE), "--validate-every", "0"],
      ...["--validate-n", "2", "--context", String(CONTEXT), "--gpu", "off"],
      // Rollouts of the untrained model often have equal rewards, of which nothing is learnt; coins differ.
      ...["--control", "random-reward"],
      ...["--engine", "vllm", "--engine-url", servers.map(({ url }) => url).join()],
    ]);
  const hone = train(999);
  try {
    await expect.poll(() => stepsOf(run).length, { timeout: 300_000 }).toBeGreaterThan(0);
    for (let killed = 0; killed < kills; ) {
      await pause(most * random.float());
      const both = killed + 1 < kills && random.float() < 0.25;
      const first = random.float() < 0.5 ? 0 : 1;
      const dying = both ? [0, 1] : [first];
      await Promise.all(dying.map((index) => (servers[index] as Server).kill()));
      killed += dying.length;
      await pause(most * random.float());
      await Promise.all(
        dying.map(async (index) => {
          servers[index] = await start(ports[index] as number);
        }),
      );
      expect(hone.child.exitCode, hone.said()).toBeNull();
    }
    const before = stepsOf(run).length;
    await expect.poll(() => stepsOf(run).length, { timeout: 300_000 }).toBeGreaterThan(before);
    hone.child.kill("SIGINT");
    await hone.ended();
    const taken = stepsOf(run).length;
    const more = train(taken + 1);
    expect(await more.ended(), more.said()).toBe(0);
    const steps = stepsOf(run);
    expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: taken + 1 }, (_, i) => i + 1));
    for (const { rollouts } of steps) expect(rollouts).toBe(GROUPS * SIZE);
    expect(hone.said()).toMatch(/answers, and plays again/);
    return steps;
  } catch (error) {
    throw new Error([hone.said(), ...servers.map(({ state }) => state?.())].join("\n"), { cause: error });
  } finally {
    hone.child.kill("SIGKILL");
    await Promise.all(servers.map((server) => server.kill()));
  }
}

it("45 deaths of stand-ins", async () => {
  await trainThroughDeaths("stand-ins", 45, 4, (port) => startStandIn({}, port));
});

it("5 deaths of real servers", async () => {
  const vllm = await prepareVllm(home);
  const steps = await trainThroughDeaths("real", 5, 10, (port) => startServer(vllm, port));
  for (const { mismatch } of steps) if (mismatch) expect(mismatch.mean).toBeLessThan(1e-4);
});

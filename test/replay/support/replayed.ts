/** Trains a run of two steps and replays them. */
import { expect } from "vitest";
import type { Replayed } from "../../../src/trainer/replay/types.js";
import { runHone } from "../../models/support/cli.js";

const here = ["--gpu", "off", "--threads", "1"];
const groups = ["--groups-per-step", "2", "--validate-n", "1"];

/** @returns the results of what a replay compares, by step */
export async function replayed(home: string, env: Record<string, string>, name: string, options: readonly string[]) {
  const trained = await runHone(
    home,
    ["train", "--run", name, "--steps", "2", "--keep", "2", ...groups, ...here, ...options],
    env,
  );
  expect(trained.status, trained.stderr).toBe(0);
  const { status, stdout, stderr } = await runHone(home, ["replay", name, "--step", "all", "--json", ...here], env);
  expect(status, stderr).toBe(0);
  const { steps, notRebuilt } = JSON.parse(stdout.trimEnd().split("\n").at(-1) as string) as Replayed;
  expect(notRebuilt[0]).toMatch(/^the play/);
  return steps.map(({ checks }) => Object.fromEntries(checks.map(({ part, result }) => [part, result])));
}

/** Of a step that is rebuilt bit for bit. */
export const whole = {
  ...{
    "learning rate": "same",
    "task rewards": "same",
    "training rewards": "same",
    advantages: "same",
    update: "same",
  },
  batch: expect.stringMatching(/^(same|skipped)$/),
};

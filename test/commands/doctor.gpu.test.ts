/** `yarn doctor` on a GPU: the training step in small that it makes there. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Check } from "../../src/hone/doctor/check.js";
import { gpu } from "../support/gpu.js";
import { ensureLearnerPython } from "../support/python.js";

it("doctor plays, learns and takes the adapter back on the GPU", async () => {
  const python = await ensureLearnerPython();
  const args = [join(packageRoot, "dist/src/cli.js"), "doctor", "--gpu", gpu.backend, "--python", python, "--json"];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
  expect(status, stderr).toBe(0);
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(true);
  const facts = (name: string) => checks.find((check) => check.name === name)?.facts;
  expect(facts("rollouts")).toMatchObject({ compute: { backend: gpu.backend, device: gpu.name } });
  const { after, before } = facts("adapter") ?? {};
  expect(after).toBeLessThan(Number(before) / 3);
});

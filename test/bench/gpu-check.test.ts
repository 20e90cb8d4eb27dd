/** `yarn gpu-check` where there is no card: what it says, what it leaves in its files, and where it goes on. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-gpu-check-"));
afterAll(() => rmSync(folder, { recursive: true }));

function check(...args: string[]) {
  const program = join(packageRoot, "dist/bench/gpu-check/main.js");
  const env = { ...process.env, CUDA_VISIBLE_DEVICES: "" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args, "--out", folder], {
    encoding: "utf8",
    env,
  });
  return { status, stdout, stderr };
}

describe("yarn gpu-check", () => {
  it("names its sections", () => {
    const { status, stdout } = check("--list");
    expect(status).toBe(0);
    const names = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split(" ")[0]);
    const speeds = ["speed-1.5b", "speed-7b-8"];
    expect(names).toEqual(["doctor", "parity", "speed-0.5b", "contexts", "steps", "kill", "updates", ...speeds]);
  });

  it("says in one line which sections there are", () => {
    const { status, stderr } = check("--sections", "doctor,speed");
    expect(status).toBe(2);
    expect(stderr).toMatch(/^gpu-check: --sections: there is no speed; there are doctor, parity, .*\n$/);
  });

  it("does again what was not done, and says why it could not be", () => {
    writeFileSync(join(folder, "doctor.json"), JSON.stringify({ state: "done" }));
    // Without a card the engine says so before anything is measured.
    const { status, stdout, stderr } = check("--sections", "doctor,parity");
    expect(stdout).toContain("doctor: done before");
    expect(stdout).toContain("parity: failed");
    expect(stderr).toContain("gpu-check: 1 of 2 sections did not end well");
    expect(status).toBe(1);
    const parity = JSON.parse(readFileSync(join(folder, "parity.json"), "utf8"));
    expect(parity).toMatchObject({ section: "parity", gpu: "cuda", rehearsal: false, state: "failed" });
    expect(parity.problem).toMatch(/cuda|CUDA|NVIDIA/);
  });
});

/** `yarn gpu-check` where there is no card: what it says, what it leaves in its file, and where it goes on. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { processesWith } from "../../bench/gpu-check/card.js";
import type { Checked } from "../../bench/gpu-check/results.js";
import { packageRoot } from "../../src/core/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-gpu-check-"));
afterAll(() => rmSync(folder, { recursive: true }));

const program = join(packageRoot, "dist/bench/gpu-check/main.js");

function check(...args: string[]) {
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
    expect(names.slice(0, 3)).toEqual(["prepare", "parity", "speed-8"]);
  });

  it("says in one line which sections there are", () => {
    const { status, stderr } = check("--sections", "doctor,speed");
    expect(status).toBe(2);
    expect(stderr).toMatch(/^gpu-check: --sections: there is no speed; there are prepare, parity, .*\n$/);
  });

  it("leaves in one file why a section could not be, and tries it again", () => {
    // Without a card the engine says so before anything is measured.
    for (const _ of ["once", "again"]) {
      const { status, stdout, stderr } = check("--sections", "parity");
      expect(stdout).toMatch(/^parity: failed: .*(cuda|CUDA|NVIDIA)/m);
      expect(stderr).toContain("gpu-check: 1 of 1 sections did not end well");
      expect(status).toBe(1);
    }
    const files = readdirSync(folder);
    expect(files).toEqual([expect.stringMatching(/^cuda-\d{4}-\d\d-\d\d-.*\.json$/)]);
    const { sections, versions, ...about } = JSON.parse(readFileSync(join(folder, files[0] ?? ""), "utf8")) as Checked;
    expect(about).toMatchObject({ what: "yarn gpu-check", device: "cuda", small: false, standIn: false });
    expect(versions).toMatchObject({ torch: expect.any(String), vllm: expect.any(String), commit: expect.any(String) });
    expect(sections).toEqual({
      parity: { state: "failed", seconds: expect.any(Number), problem: expect.stringMatching(/cuda|CUDA|NVIDIA/) },
    });
  });

  it("leaves no section behind that computes when it is killed", async () => {
    const mark = { GPU_CHECK_TEST: folder };
    const args = [program, "--on", "cpu", "--sections", "doctor", "--out", folder];
    const run = spawn(process.execPath, args, { env: { ...process.env, ...mark }, stdio: "ignore" });
    const section = () => processesWith("GPU_CHECK_TEST", folder).filter((pid) => pid !== run.pid);
    await expect.poll(section, { timeout: 60_000 }).not.toEqual([]);
    run.kill("SIGKILL");
    await expect.poll(section, { timeout: 60_000 }).toEqual([]);
  });
});

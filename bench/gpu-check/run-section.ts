/** Starts sections of `yarn gpu-check`, each in a process of its own that is ended when its time is over. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import type { CheckGpu, Section } from "./context.js";
import type { Outcome } from "./results.js";

export interface SectionRun {
  readonly section: Section;
  /** Of all sections, for those that compare with an earlier one. */
  readonly results: string;
  readonly gpu: CheckGpu;
  readonly small: boolean;
  readonly minutes: number;
}

/** What is not here is named by the section, and not fetched. */
const OFFLINE = { HF_HUB_OFFLINE: "1", PIP_NO_INDEX: "1", UV_OFFLINE: "1", npm_config_offline: "true" };

export async function runSection({ section, results, gpu, small, minutes }: SectionRun): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), "hone-gpu-check-"));
  const file = join(folder, "section.json");
  try {
    const script = join(packageRoot, "dist/bench/gpu-check/section.js");
    const about = [section.name, file, gpu === false ? "cpu" : gpu, small ? "1" : "0", results];
    const args = [script, ...about, String(process.pid)];
    const { late, code } = await inTime(args, minutes);
    const found: Outcome = existsSync(file)
      ? (JSON.parse(readFileSync(file, "utf8")) as Outcome)
      : { state: "failed", problem: `it ended with code ${code}` };
    if (late) return { ...found, state: "failed", problem: `cut off after ${Number(minutes.toFixed(1))} minutes` };
    if (found.state === "running") return { ...found, state: "failed", problem: `it ended with code ${code}` };
    return found;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function inTime(args: readonly string[], minutes: number): Promise<{ late: boolean; code: number | null }> {
  // Its own process group, so that all of it can be killed.
  const env = { ...process.env, ...OFFLINE };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"], detached: true, env });
  const end = () => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  };
  process.once("exit", end);
  return new Promise((settle) => {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      end();
    }, minutes * 60_000);
    child.once("close", (code) => {
      clearTimeout(timer);
      process.off("exit", end);
      settle({ late, code });
    });
  });
}

/** Starts sections of `yarn gpu-check`, each in a process of its own that is ended when its time is over. */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { CheckGpu, Section } from "./context.js";

export interface SectionRun {
  readonly section: Section;
  /** For its results. */
  readonly file: string;
  readonly gpu: CheckGpu;
  readonly small: boolean;
  readonly minutes: number;
}

/** What section.ts writes, and the section's own results. */
export interface SectionFile {
  readonly state: "unfinished" | "done" | "failed";
  readonly seconds: number;
  readonly problem?: string;
}

/** undefined before it has been started. */
export const sectionFile = (file: string): SectionFile | undefined =>
  existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as SectionFile) : undefined;

/** @returns "done", "failed", or that it was cut off */
export function runSection({ section, file, gpu, small, minutes }: SectionRun): Promise<string> {
  const script = fileURLToPath(new URL("./section.js", import.meta.url));
  const args = [script, section.name, file, gpu === false ? "cpu" : gpu, small ? "1" : "0"];
  // Its own process group, so that all of it can be killed.
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"], detached: true });
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
      settle(late ? `cut off after ${Number(minutes.toFixed(1))} minutes` : code === 0 ? "done" : "failed");
    });
  });
}

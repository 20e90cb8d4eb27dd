/** llama.cpp's warnings and errors during a run, kept in a file of the run. */
import { appendFileSync } from "node:fs";
import type { Gpu } from "../core/engine/engine.js";
import { onEngineLog } from "../engine/load.js";

/** Writes llama.cpp's warnings and errors to `file` until the returned function is called. */
export async function logEngine(file: string, gpu: Gpu): Promise<() => Promise<void>> {
  const write = (level: string, line: string) => {
    try {
      appendFileSync(file, `${level}: ${line}\n`);
    } catch {
      // A log that cannot be written must not end the process: llama.cpp calls this outside of any work that could fail.
    }
  };
  await onEngineLog(write, gpu);
  return () => onEngineLog(null, gpu);
}

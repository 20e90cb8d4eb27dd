/** llama.cpp's warnings and errors during a run, kept in a file of the run. */
import { appendFileSync } from "node:fs";
import { type Gpu, onEngineLog } from "../engine/index.js";

/** Writes llama.cpp's warnings and errors to `file` until the returned function is called. */
export async function logEngine(file: string, gpu: Gpu): Promise<() => Promise<void>> {
  await onEngineLog((level, line) => appendFileSync(file, `${level}: ${line}\n`), gpu);
  return () => onEngineLog(null, gpu);
}

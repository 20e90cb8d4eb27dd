/** Runs one section in a process started and killed by `yarn gpu-check`; NAME, FILE and GPU are its arguments. */
import { renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import { gpuMemory } from "../../src/engine/load.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { firstSections } from "./first-sections.js";
import { sections } from "./sections.js";

const [name, file = "", on, small] = process.argv.slice(2);
const section = [...sections, ...firstSections].find((one) => one.name === name);
if (!section || (on !== "cuda" && on !== "vulkan" && on !== "cpu")) throw new Error(`no section ${name} on ${on}`);
const gpu = on === "cpu" ? false : on;

const started = performance.now();
let results: object = {};
function write(state: "unfinished" | "done" | "failed", problem?: string): void {
  const seconds = (performance.now() - started) / 1000;
  const about = {
    section: name,
    gpu,
    rehearsal: small === "1",
    hardware: hardwareOf(undefined),
    versions: versionsOf(undefined),
  };
  const text = JSON.stringify({ ...about, state, seconds, ...(problem ? { problem } : {}), ...results }, null, 2);
  writeFileSync(`${file}.part`, `${text}\n`);
  renameSync(`${file}.part`, file);
}

write("unfinished");
try {
  // Before models are made: without a usable GPU, doctor reports more.
  if (gpu !== false && name !== "doctor") await gpuMemory(gpu);
  await section.run({
    gpu,
    small: small === "1",
    folder: dirname(file),
    log: (line) => console.error(line),
    save: (known) => {
      results = known;
      write("unfinished");
    },
  });
  write("done");
} catch (error) {
  write("failed", messageOf(error));
  console.error(error instanceof HoneError ? error.message : error);
  process.exitCode = 1;
}

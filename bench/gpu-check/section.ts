/** Runs one section in a process started and killed by `yarn gpu-check`; NAME, FILE and GPU are its arguments. */
import { renameSync, writeFileSync } from "node:fs";
import { gpuMemory } from "../../src/engine/index.js";
import { HoneError, messageOf } from "../../src/util/errors.js";
import { hardwareOf, versionsOf } from "../hardware.js";
import { sections } from "./sections.js";

const [name, file = "", gpu, rehearse] = process.argv.slice(2);
const section = sections.find((one) => one.name === name);
if (!section || (gpu !== "cuda" && gpu !== "vulkan")) throw new Error(`no section ${name} on ${gpu}`);

const started = performance.now();
let results: object = {};
function write(state: "unfinished" | "done" | "failed", problem?: string): void {
  const seconds = (performance.now() - started) / 1000;
  const about = {
    section: name,
    gpu,
    rehearsal: rehearse === "1",
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
  if (name !== "doctor") await gpuMemory(gpu);
  await section.run({
    gpu,
    rehearse: rehearse === "1",
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

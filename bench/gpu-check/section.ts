/**
 * Runs one section in a process started and killed by `yarn gpu-check`: NAME, FILE, DEVICE, SMALL, RESULTS and the id of the process
 * that started it are its arguments.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import { gpuMemory } from "../../src/engine/load.js";
import { NOT_COUNTABLE, NotCountable } from "./context.js";
import { plan } from "./plan.js";
import type { Checked, Outcome } from "./results.js";

const [name, file = "", on, small, results = "", parent] = process.argv.slice(2);
const section = plan.find((one) => one.section.name === name)?.section;
if (!section || (on !== "cuda" && on !== "vulkan" && on !== "cpu")) throw new Error(`no section ${name} on ${on}`);
const gpu = on === "cpu" ? false : on;

// Without the command that started it, which a SIGKILL ends at once, nothing of it may keep the card. That may have ended before this
// process asked who its parent is.
setInterval(() => {
  if (String(process.ppid) !== parent) process.kill(-process.pid, "SIGKILL");
}, 500).unref();

const started = performance.now();
let known: object = {};
function write(state: Outcome["state"], problem?: string): void {
  const seconds = (performance.now() - started) / 1000;
  writeFileSync(`${file}.part`, JSON.stringify({ state, seconds, ...(problem ? { problem } : {}), ...known }));
  renameSync(`${file}.part`, file);
}

write("running");
try {
  // Before models are made: without a usable GPU, doctor reports more.
  if (gpu !== false && name !== "doctor") await gpuMemory(gpu);
  await section.run({
    gpu,
    small: small === "1",
    standIn: process.env.NULLCUDA_CARD !== undefined,
    earlier: (one) =>
      existsSync(results) ? (JSON.parse(readFileSync(results, "utf8")) as Checked).sections[one] : undefined,
    log: (line) => console.error(line),
    save: (now) => {
      known = now;
      write("running");
    },
  });
  write("done");
} catch (error) {
  const [line] = messageOf(error).split("\n");
  write(error instanceof NotCountable ? NOT_COUNTABLE : "failed", line);
  if (!(error instanceof HoneError)) console.error(error);
}

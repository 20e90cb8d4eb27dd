/**
 * The thread that ends the process when code of the user's blocks the main thread for too long. It attaches V8's debugger
 * to the main thread, which interrupts JavaScript in any loop, and calls the function that the main thread has left
 * for this (watch.ts), so that the process ends as any other: with a message and its exit handlers.
 */
import { writeSync } from "node:fs";
import { type Debugger, Session } from "node:inspector";
import { pathToFileURL } from "node:url";
import { parentPort } from "node:worker_threads";
import { packageRoot } from "./paths.js";
import { printable } from "./text.js";
import { TimeLimit } from "./time-limit.js";
import { OVERDUE, type Watched } from "./watch.js";

/** Milliseconds until a thread that no debugger can interrupt (it waits in the operating system) is ended with SIGKILL. */
const HARD_MS = 5000;

const limits = new Map<number, TimeLimit>();
const ours = [pathToFileURL(packageRoot).href, packageRoot];

/** " at task.ts:12" of the innermost code that is neither Node's nor hone's nor a package's; empty without any. */
function placeOf(frames: readonly Debugger.CallFrame[], files: ReadonlyMap<string, string>): string {
  for (const { location } of frames) {
    const file = files.get(location.scriptId) ?? "";
    const isForeign = /^(file:\/\/)?\//.test(file) && !/\/node_modules\//.test(file);
    if (isForeign && !ours.some((own) => file.startsWith(`${own}/dist/`)))
      return ` at ${file.replace(/^file:\/\//, "")}:${location.lineNumber + 1}`;
  }
  return "";
}

function endProcess(id: number, message: string): void {
  setTimeout(() => {
    writeSync(2, `hone: ${printable(message)}\n`);
    process.kill(process.pid, "SIGKILL");
  }, HARD_MS);
  const session = new Session();
  session.connectToMainThread();
  const files = new Map<string, string>();
  session.on("Debugger.scriptParsed", ({ params: { scriptId, url } }) => files.set(scriptId, url));
  session.on("Debugger.paused", ({ params: { callFrames } }) => {
    const [frame] = callFrames;
    if (!frame) return;
    const place = JSON.stringify(placeOf(callFrames, files));
    const expression = `globalThis[Symbol.for(${JSON.stringify(OVERDUE)})](${id}, ${place})`;
    session.post("Debugger.evaluateOnCallFrame", { callFrameId: frame.callFrameId, expression });
  });
  session.post("Debugger.enable");
  session.post("Debugger.pause");
}

parentPort?.on("message", ({ id, limit }: Watched) => {
  limits.get(id)?.clear();
  limits.delete(id);
  if (!limit) return;
  const time = new TimeLimit(limit.milliseconds / 1000, () => new Error(limit.message));
  time.signal.addEventListener("abort", () => endProcess(id, limit.message), { once: true });
  limits.set(id, time);
});

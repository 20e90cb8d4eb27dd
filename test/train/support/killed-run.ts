/**
 * A run in a process of its own that kills itself at one of its moments: `killed-run.ts FOLDER LOG MOMENT STALENESS`. A moment is any
 * call that changes a file, any statement that changes the store, and anything the policy or the learner does; they are
 * counted from 1, and 0 kills never. Each moment's name is appended to LOG as it comes.
 */
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import Database from "better-sqlite3";

const [folder = "", log = "", moment = "0", staleness = "0"] = process.argv.slice(2);
// Opened and written with calls that are not watched.
const logHandle = fs.openSync(log, "a");
let moments = 0;

function tick(name: string): void {
  moments++;
  fs.writeSync(logHandle, `${name}\n`);
  if (moments !== Number(moment)) return;
  process.kill(process.pid, "SIGKILL");
  for (;;);
}

type Call = (...args: never[]) => unknown;

function watch(owner: object, names: readonly string[]): void {
  const methods = owner as Record<string, Call>;
  for (const name of names) {
    const original = methods[name] as Call;
    methods[name] = function (this: unknown, ...args: never[]) {
      tick(name);
      return original.apply(this, args);
    };
  }
}

watch(fs, ["renameSync", "fsyncSync", "writeFileSync", "mkdirSync", "rmSync", "copyFileSync"]);
watch(fsPromises, ["writeFile"]);
syncBuiltinESMExports();
const memory = new Database(":memory:");
watch(Object.getPrototypeOf(memory.prepare("SELECT 1")), ["run"]);
watch(Database.prototype, ["exec"]);
memory.close();

const { goThrough } = await import("./fakes.js");

await goThrough(folder, tick, Number(staleness));

#!/usr/bin/env node
/** The program `hone`: the command line of this process. */
import { writeSync } from "node:fs";
import { allowExit } from "./core/util/watch.js";
import { commandList } from "./hone/command-list.js";

process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  allowExit();
  // `hone ... | head` closes the pipe early: that is the reader's choice, not an error.
  if (error.code === "EPIPE") process.exit(0);
  try {
    writeSync(2, `hone: stdout cannot be written: ${error.message}\n`);
  } catch {
    // stderr is on the same full device; the exit code says it.
  }
  process.exit(1);
});

// A reader of stderr that has gone, as `2> >(head)`, ends no work: results are on stdout and in files.
process.stderr.on("error", () => undefined);

/** Milliseconds that what is left of a command may keep the process: connections close, streams are written. */
const LEFT_MS = 1000;

const words = process.argv.slice(2);
if (/^(--help|help)?$/.test(words.join(" "))) process.stdout.write(`${commandList(process.stdout.columns)}\n`);
else {
  // Options, their parser and all that a command needs: half a second that the list of commands need not wait for.
  const { main } = await import("./hone/command-line.js");
  process.exitCode = await main(words);
  // Timers and connections of a task are over with the command; a program of the user's ends by itself.
  if (words[0] !== "exec") setTimeout(() => process.exit(), LEFT_MS).unref();
}

#!/usr/bin/env node
/** The program `hone`: the command line of this process. */
import { hideBin } from "yargs/helpers";
import { main } from "./command-line.js";
import { allowExit } from "./util/index.js";

// `hone ... | head` closes the pipe early: that is the reader's choice, not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") {
    allowExit();
    process.exit(0);
  }
  throw error;
});

/** Milliseconds that what is left of a command may keep the process: connections close, streams are written. */
const LEFT_MS = 1000;

const words = hideBin(process.argv);
process.exitCode = await main(words);
// Timers and connections of a task are over with the command; a program of the user's ends by itself.
if (words[0] !== "exec") setTimeout(() => process.exit(), LEFT_MS).unref();

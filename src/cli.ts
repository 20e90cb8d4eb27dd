#!/usr/bin/env node
/** The program `hone`: the command line of this process. */
import { hideBin } from "yargs/helpers";
import { main } from "./command-line.js";

// `hone ... | head` closes the pipe early: that is the reader's choice, not an error.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code === "EPIPE") process.exit(0);
  throw error;
});

process.exitCode = await main(hideBin(process.argv));

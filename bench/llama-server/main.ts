/** `yarn llama-server`: llama.cpp's server on the libraries that hone uses. */
import { spawn } from "node:child_process";
import { HoneError } from "../../src/core/util/errors.js";
import { buildLlamaTool, toolEnvironment } from "../llama-tools.js";

const usage = `yarn llama-server                    prints the program's path
yarn llama-server -m GGUF [ARG ...]  starts it

llama.cpp's own llama-server, compiled from the source that node-llama-cpp carries over the libraries that it installed:
an OpenAI-compatible server on the same llama.cpp as hone's engine, for --player-url and for comparisons. Compiling takes
minutes, once. It has no web page.`;

const args = process.argv.slice(2);
if (args[0] === "--help") console.log(usage);
else {
  try {
    const program = await buildLlamaTool("llama-server", (line) => console.error(line));
    if (args.length === 0) console.log(program);
    else {
      const server = spawn(program, args, { stdio: "inherit", env: toolEnvironment() });
      for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => server.kill(signal));
      process.exitCode = await new Promise<number>((resolve) => server.once("close", (code) => resolve(code ?? 1)));
    }
  } catch (error) {
    if (!(error instanceof HoneError)) throw error;
    console.error(error.message);
    process.exitCode = error.exitCode;
  }
}

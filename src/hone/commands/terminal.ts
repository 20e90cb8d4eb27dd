/** Line input from a person, at a terminal or from a pipe. */
import { createInterface } from "node:readline";
import type { CommandIo } from "../command.js";
import type { Terminal } from "../play/person-session.js";

/** Reads stdin line by line; on a terminal a line can be edited. */
export function openTerminal(io: CommandIo): Terminal & { close(): void } {
  const lines = createInterface({
    input: process.stdin,
    output: io.stream,
    prompt: "> ",
    terminal: process.stdin.isTTY === true && io.stream.isTTY === true,
  });
  // On a terminal readline intercepts Ctrl-C; pass it on as SIGINT.
  lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  io.signal.addEventListener("abort", () => lines.close(), { once: true });
  const iterator = lines[Symbol.asyncIterator]();
  return {
    async ask() {
      if (lines.terminal) lines.prompt();
      const { value, done } = await iterator.next();
      return done ? undefined : value;
    },
    print: (text) => io.log(text),
    show: (text) => io.show(text),
    close: () => lines.close(),
  };
}

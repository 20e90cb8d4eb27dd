// The process of command-line.ts: runs one command line after another, as its parent asks.
import { fileURLToPath } from "node:url";

// Messages name commands as the program was started.
process.argv[1] = fileURLToPath(new URL("../../dist/src/cli.js", import.meta.url));
const { main } = await import("../../dist/src/hone/command-line.js");

process.on("message", async ({ folder, args, mark }) => {
  process.chdir(folder);
  process.exitCode = undefined;
  const code = await main(args);
  for (const stream of [process.stdout, process.stderr]) stream.write(mark);
  process.send(code || process.exitCode || 0);
});
process.send("ready");

/** `yarn hone view`: serves the web page of runs on this machine. */

import { once } from "node:events";
import { openRuns } from "../../insight/view/runs.js";
import { serveRuns } from "../../insight/view/server.js";
import { defineCommand } from "../command.js";

export const viewCommand = defineCommand({
  name: "view",
  positional: "runs",
  async run({ runs: words = [], port, project, home }, io) {
    const runs = openRuns({ home, project }, words);
    try {
      const server = await serveRuns(runs, port ?? 0);
      for (const { problem } of runs) if (problem !== null) io.log(`not shown: ${problem}`);
      io.log(`${runs.map(({ name }) => name).join(", ")}: ${server.url}  (Ctrl-C ends it)`);
      if (!io.signal.aborted) await once(io.signal, "abort");
      await server.close();
      return { url: server.url, runs: runs.map(({ name }) => name) };
    } finally {
      for (const run of runs) run.close();
    }
  },
});

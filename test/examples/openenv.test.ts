/** The example of an OpenEnv environment is the task of any server; server.py itself is run by ../agent/openenv.long.test.ts. */
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadTask } from "../../src/scenarios/load.js";
import { playEpisode } from "../agent/support/openenv-playing.js";
import { openEnvServer } from "../agent/support/openenv-server.js";

it("plays an episode of the server that --set url names, by the system message of the file", async () => {
  const task = await loadTask(join(packageRoot, "examples/openenv/task.ts"));
  const { url, close } = await openEnvServer();
  try {
    const { reward, asked } = await playEpisode(
      task,
      [1, 2, 3].map((number) => [["count_up", { number }]] as const),
      {
        options: { url },
      },
    );
    expect(reward).toEqual({ reward: 1.5, success: true, parts: {} });
    expect(asked[0]?.prompt[0]).toMatchObject({
      role: "system",
      content: "Find the number by guessing: call the tool once a turn.",
    });
  } finally {
    await close();
  }
});

/**
 * An environment of OpenEnv as a task: server.py has the episodes and their rewards. Start it first:
 *
 *     uv run --with openenv examples/openenv/server.py
 *     yarn rollout --task examples/openenv/task.ts --model qwen2.5-0.5b --n 4 --show
 *     yarn train --task examples/openenv/task.ts --model qwen2.5-0.5b
 *
 * Without a file, for any server: `--task openenv --set url=http://127.0.0.1:8000`.
 */
import { openEnv } from "@hone-rl/hone";

export default openEnv("http://127.0.0.1:8000", {
  name: "guess",
  system: "Find the number by guessing: call the tool once a turn.",
});

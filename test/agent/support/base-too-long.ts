/** An agent whose base is to have a longer context than its model has. */
import { defineTask, withBase } from "@hone-rl/hone";

export default defineTask({
  name: "base-too-long",
  scenarios: () => [],
  rollout: withBase({ context: 1_000_000 }, () => 0),
});

/** Plays one rollout of the task in argv[2] and prints how it ended. Its tool may take three seconds. */
import { gather } from "../../dist/src/core/gather/gather.js";

const limits = { maxTurns: 1, maxTokens: 10, turnSeconds: 3, toolSeconds: 3, rolloutSeconds: 6 };
const { groups } = await gather({
  settings: {
    task: process.argv[2],
    taskOptions: {},
    player: { kind: "expert", mistakes: 0 },
    limits: { ...limits, onToolError: "observe" },
  },
  scenarios: [{ id: "one", split: "test", question: "go" }],
  groupSize: 1,
  seedName: "stopped",
  step: 0,
  concurrency: 1,
  workers: 1,
  graceSeconds: 1,
});
console.log(groups.flat().map(({ end, reason = "" }) => `${end} ${reason}`.trim()));

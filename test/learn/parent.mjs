// A hone process for the tests to kill: starts a learner, says its process id, and waits in the middle of a step. Compiled code: to
// translate its sources first took ten times as long as the test.
import { fileURLToPath } from "node:url";
import { startLearner } from "../../dist/src/core/learn/learner.js";

const { settings, step, behaviour } = JSON.parse(process.argv[2]);
const learner = await startLearner(settings, {
  module: [fileURLToPath(new URL("fake_learner.py", import.meta.url)), behaviour],
});
process.stdout.write(`${learner.pid}\n`);
await learner.step({ ...step, onProgress: ({ done }) => process.stdout.write(`${done}\n`) });

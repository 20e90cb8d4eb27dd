/** A hone process for the tests to kill: starts a learner, says its process id, and waits in the middle of a step. */
import { startLearner } from "../../src/learn/learner.js";
import { settings, step } from "./support.js";

const [python = "", log = "", behaviour = "hang"] = process.argv.slice(2);
const learner = await startLearner(settings(python, log), {
  module: [new URL("fake_learner.py", import.meta.url).pathname, behaviour],
});
process.stdout.write(`${learner.pid}\n`);
await learner.step({ ...step, onProgress: ({ done }) => process.stdout.write(`${done}\n`) });

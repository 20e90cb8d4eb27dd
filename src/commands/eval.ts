/** `yarn eval`: how good checkpoints of a run are, on scenarios they were not trained on. */
import { defineCommand } from "../config/index.js";
import { evalText, ProgressLine, RolloutTally } from "../report/index.js";
import { evalOptions, evaluateRun } from "../train/index.js";

export const evalCommand = defineCommand({
  name: "eval",
  summary: "Evaluate checkpoints of a run: success with its interval, rewards, turns, ends.",
  example: "yarn eval --checkpoint base,latest",
  options: evalOptions,
  first: ["project", "run", "checkpoint", "split", "n", "fresh", "temperature", "gpu", "home"],
  async run(config, io) {
    const progress = new ProgressLine(io.stream);
    let title = "";
    let total = 0;
    let tally = new RolloutTally();
    try {
      const { run, evaluations } = await evaluateRun(config, io.given, {
        signal: io.signal,
        view: {
          begin: (checkpoint, scenarios) => {
            title = checkpoint;
            total = scenarios;
            tally = new RolloutTally();
          },
          rollout: (trajectory) => {
            tally.add(trajectory);
            progress.update(() => `${title} ${tally.line(total)}`);
          },
          say: (text) => progress.say(text),
        },
      });
      progress.clear();
      io.say(`run ${run}, ${config.split ?? "test"} scenarios\n${evalText(evaluations)}`);
      return evaluations;
    } finally {
      progress.clear();
    }
  },
});

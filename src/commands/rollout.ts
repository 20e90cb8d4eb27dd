/** `yarn rollout`. */
import { defineCommand } from "./command.js";

export const rolloutCommand = defineCommand({
  name: "rollout",
  summary: "Play scenarios and report how it went.",
  example: "yarn rollout --n 1 --show",
  options: ["task", "db", "n"],
  async run(config, io) {
    io.say(`${config.task} ${config.n}`);
    return {};
  },
});

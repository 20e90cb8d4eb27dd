/** The mail task as a Python program that speaks OpenAI's API. */
import { join } from "node:path";
import { defineTask } from "@hone-rl/hone";
import { apiTools, body, found, MAX_TURNS, rewardOf, scenarios, system } from "./mail.js";

export default defineTask({
  name: "mail-python",
  scenarios,
  rollout: async ({ scenario, run }) => {
    const about = { system, question: scenario.question, tools: apiTools, turns: MAX_TURNS, found, body };
    const { stdout } = await run("python3", [join(import.meta.dirname, "mail_agent.py")], {
      input: JSON.stringify(about),
    });
    const [turns, answered] = JSON.parse(stdout) as [number, boolean];
    return rewardOf(turns, answered);
  },
});

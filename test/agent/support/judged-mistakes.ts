/** The same agents; the task says itself whose fault an error is, and what it is worth. */
import { type AgentFailure, defineTask, type Scenario } from "@hone-rl/hone";
import { rollout } from "./mistakes.js";

function judge({ names, evidence, end, turns, message, scenario }: AgentFailure) {
  console.log(`\nSEEN ${JSON.stringify({ names, evidence, end, turns, message, scenario: scenario.id })}`);
  if (names.includes("TooManySearches")) return -0.5;
  if (names.includes("NoSuchToolError")) return false;
  if (names.includes("TypeError")) return { reward: -1, success: false, parts: { defect: 1 } };
  return undefined;
}

export default defineTask<Scenario>({ name: "judged", scenarios: () => [], modelMistakes: judge, rollout });

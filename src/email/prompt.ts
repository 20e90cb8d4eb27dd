/** The email agent's prompt. Short, since every rollout evaluates it, with the smallest models too. */
import type { ChatMessage } from "../core/task/task.js";
import type { EmailScenario } from "./scenario.js";

/** The answer of an agent that gives up. */
export const NOT_FOUND = "not found";

/**
 * The system and user messages: ART-E's, with the format of the answer added. Templates write tools behind the system
 * message, so prompts of different questions have more in common where address and date are the user's.
 */
export function emailPrompt(scenario: EmailScenario, { maxTurns }: { maxTurns: number }): ChatMessage[] {
  const inbox = [`User's email address is ${scenario.inbox_address}.`, `Today's date is ${scenario.query_date}.`];
  const behind = scenario.inbox === "question";
  const system = [
    "You are an email search agent. Use the tools to search and read emails.",
    `You may take up to ${maxTurns} turns.`,
    ...(behind ? [] : inbox),
    `Return a short final answer with the ids of the emails it stands in, or "${NOT_FOUND}".`,
  ].join(" ");
  return [
    { role: "system", content: system },
    { role: "user", content: behind ? `${inbox.join(" ")}\n\n${scenario.question}` : scenario.question },
  ];
}

/**
 * The email task for models without useful output: the model writes turns of a fixed length, and the calls are the
 * expert's, with their real results, so that every rollout has four turns.
 */
import type { LanguageModelV3, LanguageModelV3Prompt } from "@ai-sdk/provider";
import { ExpertSession } from "../../src/rollout/index.js";
import type { AnyTask } from "../../src/tasks/index.js";
import { emailTask } from "../../src/tasks/index.js";
import { Random } from "../../src/util/random.js";
import { mailAgent } from "./mail.js";

/** Tokens of a turn, unless the model ends it: models with random weights hardly ever do. */
export const SCRIPTED_TOKENS = 40;

const text = (role: "user" | "assistant", written: string) =>
  ({ role, content: [{ type: "text", text: written }] }) as LanguageModelV3Prompt[number];

export default mailAgent("mail-scripted", async (mailbox, { model }) => {
  const { id } = mailbox.scenario;
  // One extra search, so that every rollout has four turns.
  const script = { mistakes: { repeats_search: 1 } };
  const task = emailTask as unknown as AnyTask;
  const expert = new ExpertSession(task, mailbox.scenario, new Random("scripted", id), script);
  const [system, question] = mailbox.messages;
  const prompt: LanguageModelV3Prompt = [
    { role: "system", content: system?.content ?? "" },
    text("user", question?.content ?? ""),
  ];
  while (!mailbox.over) {
    const { content } = await (model as LanguageModelV3).doGenerate({
      prompt,
      maxOutputTokens: SCRIPTED_TOKENS,
      abortSignal: mailbox.signal,
    });
    mailbox.turns++;
    const written = content.map((part) => (part.type === "text" ? part.text : "")).join("");
    const { calls } = await expert.turn();
    const results: string[] = [];
    for (const { call } of calls.filter((one) => one.kind === "call")) {
      results.push(await mailbox.call(call.name, call.arguments));
    }
    prompt.push(text("assistant", written), text("user", results.join("\n")));
    expert.respond([], mailbox.records.slice(-calls.length));
  }
  expert.close();
});

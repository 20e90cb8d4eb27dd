/**
 * A judge without a model, on loopback: an OpenAI-compatible server that scores RULER's questions from the known
 * answers. Training with it shows that judged rewards reach the model; it says nothing about the judgement of a real
 * one.
 */
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { CallRecord, ChatMessage, FinishedRollout, RolloutEnd } from "../src/core/task/task.js";
import { sameAnswer } from "../src/email/answer.js";
import type { MailDatabase } from "../src/email/reader.js";
import { emailReward } from "../src/email/reward.js";
import type { EmailScenario } from "../src/email/scenario.js";
import { correctnessQuestion } from "../src/judge/correctness.js";

/** One attempt, as shown to a judge. */
export interface ShownAttempt {
  readonly messages: readonly ChatMessage[];
  readonly ended: string;
  readonly turns: number;
}

export interface ScriptedJudge {
  readonly url: string;
  /** Number of chat completions served. */
  readonly requests: () => number;
  close(): Promise<void>;
}

const linesOf = (text: string) =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));

/** The attempts of a RULER question by id. */
function readQuestion(text: string): Map<string, ShownAttempt> {
  const context = /^<context>\n([\s\S]*?)\n<\/context>$/m.exec(text)?.[1] ?? "";
  const blocks = text.matchAll(/^<trajectory id="(\d+)">\n([\s\S]*?)\n<\/trajectory>$/gm);
  return new Map(
    [...blocks].map(([, id = "", block = ""]) => {
      const lines = linesOf(block);
      const { ended, turns } = lines.pop();
      return [id, { messages: [...linesOf(context), ...lines], ended, turns }];
    }),
  );
}

async function bodyOf(request: IncomingMessage) {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as { messages: { content: string }[] };
}

export interface ScriptedJudgeOptions {
  /** From 0 to 1. */
  readonly score: (attempt: ShownAttempt) => number;
  /** Duration of every answer in seconds. */
  readonly seconds?: number;
  readonly port?: number;
}

export async function startScriptedJudge({
  score,
  seconds = 0,
  port = 0,
}: ScriptedJudgeOptions): Promise<ScriptedJudge> {
  let requests = 0;
  const server = createServer(async (request, response) => {
    const { messages } = await bodyOf(request);
    requests++;
    const content = answerTo(
      messages.map((message) => message.content),
      score,
    );
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    response.setHeader("content-type", "application/json");
    const tokens = (text: string) => Math.ceil(text.length / 4);
    response.end(
      JSON.stringify({
        object: "chat.completion",
        choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }],
        usage: {
          prompt_tokens: tokens(messages.map((message) => message.content).join("")),
          completion_tokens: tokens(content),
        },
      }),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests: () => requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const correctnessSystem = correctnessQuestion({ question: "", golden: "", given: "" }).messages[0]?.content;

function answerTo([system, question = ""]: readonly string[], score: ScriptedJudgeOptions["score"]): string {
  if (system === correctnessSystem) {
    const { question: asked, golden_answer: golden, agents_answer: given } = JSON.parse(question);
    return JSON.stringify({ reasoning: "compared word by word", accept: sameAnswer(given, golden, asked) });
  }
  const scores = [...readQuestion(question)].map(([trajectory_id, attempt]) => {
    const { ended, turns } = attempt;
    return { trajectory_id, explanation: `${ended} after ${turns} turns`, score: score(attempt) };
  });
  return JSON.stringify({ scores });
}

/** The calls of an attempt with their results, from its messages alone. */
function callsOf(messages: readonly ChatMessage[]): CallRecord[] {
  const calls: CallRecord[] = [];
  let turn = 0;
  let open: CallRecord[] = [];
  for (const message of messages) {
    if (message.role === "assistant") {
      turn++;
      open = (message.tool_calls ?? []).map((call) => ({ turn, ...call, outcome: "ok", result: null }));
      calls.push(...open);
    } else if (message.role === "tool") {
      // A call that could not be parsed has a result, but no name.
      const call = message.name === "" ? undefined : open.shift();
      if (!call) continue;
      call.result = JSON.parse(message.content);
      if (typeof call.result === "object" && call.result !== null && "error" in call.result)
        call.outcome = "tool_error";
    }
  }
  return calls;
}

/** Scores with knowledge of every answer: the task's checkable reward, scaled to 0 to 1. */
export function knowingScore(mail: MailDatabase): (attempt: ShownAttempt) => number {
  const scenarios = new Map<string, EmailScenario>();
  for (const scenario of mail.scenarios()) scenarios.set(`${scenario.inbox_address} ${scenario.question}`, scenario);
  return ({ messages, ended, turns }) => {
    const system = messages.find(({ role }) => role === "system")?.content ?? "";
    const question = messages.find(({ role }) => role === "user")?.content ?? "";
    const inbox = /email address is (\S+)\. /.exec(system)?.[1] ?? "";
    const scenario = scenarios.get(`${inbox} ${question}`);
    if (!scenario) throw new Error(`the scripted judge does not know the question ${question} of ${inbox}`);
    const calls = callsOf(messages);
    const answer = ended === "answered" ? calls.findLast(({ name }) => name === "return_final_answer") : undefined;
    const rollout: FinishedRollout = {
      messages,
      calls,
      answer: answer?.arguments,
      end: ended as RolloutEnd,
      turns,
      maxTurns: Number(/up to (\d+) turns/.exec(system)?.[1] ?? 10),
    };
    const { reward } = emailReward(rollout, scenario, (id) => mail.resolveId(id));
    return Math.min(1, Math.max(0, (reward + 0.1) / 1.1));
  };
}

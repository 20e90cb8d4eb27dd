/**
 * Reads an answer of an OpenAI-compatible server for what it says, whatever surrounds that: streams that nobody asked for, texts in
 * parts, fields that are empty, null or of another type. Servers differ in all of these, and a good answer has been paid for.
 */
import { cutText } from "../../core/util/text.js";
import { joined } from "./events.js";
import { ChatError, errorIn, type FailureFacts } from "./failure.js";
import { type Fields, isFields, listOf, parsed } from "./fields.js";
import { pageIn, request, textOf as wholeOf } from "./http.js";
import type { ChatServer } from "./server.js";

/** A tool call as the model wrote it. */
export interface Call {
  readonly id: string;
  readonly name: string;
  /** JSON, as it came. */
  readonly arguments: string;
  /** Other fields, which some servers want back (Gemini's signatures). */
  readonly more: Readonly<Record<string, unknown>>;
}

export interface Completion {
  readonly text: string;
  readonly calls: readonly Call[];
  /** Thoughts beside the text, under the server's own name for them. */
  readonly thoughts: { readonly name: string; readonly text: string } | undefined;
  readonly refusal: string | undefined;
  /** `unfinished`: a stream that did not say its end. */
  readonly finish: "stop" | "length" | "filtered" | "unfinished";
  /** Tokens, where the server tells them. */
  readonly usage: { readonly prompt: number | undefined; readonly completion: number | undefined };
}

/** Reasons to stop in servers' own words. */
const CUT = /^(length|max_?(output_|completion_)?tokens|model_length)$/i;
const FILTERED = /filter|safety|sensitive|blocked|prohibited/i;
/** The generation failed on the server. */
const BROKEN = /error|abort|insufficient_system_resource/i;

const THOUGHTS = ["reasoning_content", "reasoning", "thinking"];

/**
 * @param body as `/chat/completions` takes it
 * @throws ChatError; the signal's reason when that is aborted
 */
export async function complete(server: ChatServer, body: object, signal: AbortSignal): Promise<Completion> {
  const response = await request(server, "chat/completions", { body, signal });
  return readCompletion(await wholeOf(response, server, signal), response.status, server.key);
}

/** @param key taken out of error texts */
function readCompletion(answer: string, status: number, key: string | undefined): Completion {
  const fail = (facts: Omit<FailureFacts, "status"> & { status?: number }) =>
    new ChatError({ ...facts, status: facts.status || status }, key);
  const text = answer.replace(/^\ufeff/, "").trim();
  if (text === "") throw fail({ kind: "garbled", text: "an answer without a body" });
  const page = pageIn(text);
  if (page !== undefined) throw fail({ kind: "page", text: page });
  const once = parsed(text);
  const value = (typeof once === "string" ? parsed(once) : once) ?? joined(text);
  const body = withChoices(value);
  if (!body) {
    const error = errorIn(value);
    throw fail(
      error ? { ...error, kind: "refused" } : { kind: "garbled", text: `no chat completion: ${cutText(text, 200)}` },
    );
  }
  const completion = completionOf(body);
  const error = errorBeside(body, completion);
  if (error) throw fail({ ...error, kind: "refused" });
  return completion;
}

/** The object that has the choices: the answer, or what a proxy has put in a frame. */
function withChoices(value: unknown): Fields | undefined {
  if (!isFields(value)) return undefined;
  const frames = [value, value.data, value.result, value.response];
  return frames.filter(isFields).find(({ choices }) => listOf(choices).some(isFields));
}

/** In order of their index, where they have one. */
const choicesIn = ({ choices }: Fields): Fields[] =>
  listOf(choices)
    .filter(isFields)
    .sort((a, b) => Number(a.index ?? 0) - Number(b.index ?? 0));

/** An error in place of an answer, or of its end. */
function errorBeside(body: Fields, { text, calls }: Completion): Omit<FailureFacts, "kind"> | undefined {
  const [choice] = choicesIn(body) as [Fields];
  const broken = typeof choice.finish_reason === "string" && BROKEN.test(choice.finish_reason);
  const said = [choice.error, body.error].find((one) => (isFields(one) ? true : typeof one === "string" && one !== ""));
  // With its end and a text, an answer is one whatever stands beside it.
  const whole = choice.finish_reason && !broken && (text !== "" || calls.length > 0);
  if (said !== undefined && !whole) return errorIn({ error: said });
  return broken ? { status: 502, text: `the generation broke off (${choice.finish_reason})` } : undefined;
}

function completionOf(body: Fields): Completion {
  const choices = choicesIn(body);
  const messages = choices.map((choice) => [choice.message, choice.delta].find(isFields) ?? choice);
  const texts = messages.map((message) => textOf(message.content) || textOf(message.text));
  // One was asked for; some proxies give text and calls a choice each.
  const at = Math.max(
    0,
    texts.findIndex((text) => text !== ""),
  );
  const calls = messages.flatMap(callsOf);
  const thoughts = messages.flatMap(thoughtsOf)[0];
  const refusals = messages.map(({ refusal }) => refusal).filter((one) => typeof one === "string" && one !== "");
  const finish = String(choices[at]?.finish_reason ?? choices[0]?.finish_reason ?? "");
  return {
    text: texts[at] || misfiled(finish, calls, thoughts?.text),
    calls,
    thoughts,
    refusal: refusals[0] as string | undefined,
    finish: CUT.test(finish)
      ? "length"
      : FILTERED.test(finish)
        ? "filtered"
        : body.ended === false
          ? "unfinished"
          : "stop",
    usage: usageOf(body.usage, texts.join("") !== "" || calls.length > 0),
  };
}

/** A whole answer in JSON that a server took for thoughts: vLLM's, where the model was told not to think. */
function misfiled(finish: string, calls: readonly Call[], thoughts = ""): string {
  return finish === "stop" && calls.length === 0 && isFields(parsed(thoughts)) ? thoughts : "";
}

/** A text: as it is, in parts, or an object that a proxy has parsed. Parts that are thoughts are none of it. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map(textOf).join("");
  if (!isFields(content)) return typeof content === "number" || typeof content === "boolean" ? String(content) : "";
  const { type, text, value } = content;
  if (typeof type === "string" && /think|reason|tool|image|audio|refusal/i.test(type)) return "";
  if (text !== undefined || value !== undefined || typeof type === "string")
    return textOf(text ?? value ?? content.content);
  return JSON.stringify(content);
}

function thoughtsOf(message: Fields) {
  return THOUGHTS.flatMap((name) => {
    const text = textOf(message[name]);
    return text === "" ? [] : [{ name, text }];
  });
}

function callsOf(message: Fields): Call[] {
  const old = isFields(message.function_call) ? [{ function: message.function_call }] : [];
  const calls = listOf(message.tool_calls).filter(isFields);
  return (calls.length > 0 ? calls : old).flatMap((call, i) => {
    const { function: called, id, type, index: _, ...more } = call as Fields;
    if (!isFields(called) || (typeof type === "string" && type !== "" && type !== "function")) return [];
    const { name, arguments: given } = called;
    const text = typeof given === "string" ? given : given === undefined || given === null ? "" : JSON.stringify(given);
    const own = typeof id === "string" || typeof id === "number" ? String(id) : "";
    return [{ id: own || `call_${i}`, name: String(name ?? ""), arguments: text, more }];
  });
}

/** A number, also one that is written as a text. */
function count(value: unknown): number | undefined {
  const number = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  return typeof number === "number" && Number.isFinite(number) && number >= 0 ? number : undefined;
}

/** @param said whether the answer has a text: one of no tokens is a server's that does not count */
function usageOf(usage: unknown, said: boolean): Completion["usage"] {
  const of = isFields(usage) ? usage : {};
  const total = count(of.total_tokens);
  const prompt = count(of.prompt_tokens ?? of.input_tokens) || undefined;
  const rest = total !== undefined && prompt !== undefined && total >= prompt ? total - prompt : undefined;
  const written = count(of.completion_tokens ?? of.output_tokens);
  const { reasoning_tokens: thoughts } = isFields(of.completion_tokens_details) ? of.completion_tokens_details : {};
  // Some, xAI's among them, count thoughts beside the completion's tokens; they are billed, and in the sum.
  const beside = count(thoughts) && rest !== undefined && written !== undefined && rest > written;
  const completion = beside ? rest : (written ?? rest);
  return { prompt, completion: said ? completion || undefined : completion };
}

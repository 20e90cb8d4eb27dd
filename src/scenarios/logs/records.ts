/** Calls of models in logs: OpenTelemetry's spans, Langfuse's observations, OpenAI's training files. */
import type { ChatMessage, ToolSchema } from "../../core/task/task.js";
import { toJson } from "../../core/util/json.js";
import { type Fields, isFields, listOf } from "../../serve/openai/fields.js";
import { messagesOf, opened, toolsOf, Unused } from "./messages.js";

/** One call of a model, with its prompt and its answer. */
export interface LoggedCall {
  /** Names it in its log. */
  readonly id: string;
  /** Calls of one trace may be turns of one conversation; undefined: the record is a whole conversation. */
  readonly trace: string | undefined;
  /** Order within a trace. */
  readonly at: string;
  /** Who spoke: conversations of one session are on the same side of the split. */
  readonly session: string | undefined;
  readonly messages: readonly ChatMessage[];
  readonly tools: readonly ToolSchema[];
  readonly model: string | undefined;
  /** It was written to be learnt from. */
  readonly demonstration: boolean;
}

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);

/** A value of OTLP's JSON: `{stringValue}`, `{arrayValue: {values}}`. */
function plainValue(value: unknown): unknown {
  if (!isFields(value)) return value;
  if (isFields(value.arrayValue)) {
    return listOf(value.arrayValue.values).map(plainValue);
  }
  if (isFields(value.kvlistValue)) return plainAttributes(value.kvlistValue.values);
  return value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue;
}

function plainAttributes(given: unknown): Fields {
  if (!Array.isArray(given)) return isFields(given) ? given : {};
  return Object.fromEntries(
    given.flatMap((one) => (isFields(one) && typeof one.key === "string" ? [[one.key, plainValue(one.value)]] : [])),
  );
}

/** Calls of a turn as the AI SDK logs them. */
const callParts = (calls: unknown) => listOf(calls).map((call) => ({ ...(call as Fields), type: "tool-call" }));

/** The spans of a line: one, or those of an export in OTLP's JSON. */
export function spansIn(record: Fields): Fields[] | undefined {
  const lists = (value: unknown) => listOf(value).filter(isFields);
  if (Array.isArray(record.resourceSpans)) {
    return lists(record.resourceSpans).flatMap(({ scopeSpans }) =>
      lists(scopeSpans).flatMap(({ spans }) => lists(spans)),
    );
  }
  const isSpan =
    record.attributes !== undefined && (record.traceId ?? record.trace_id ?? record.spanContext ?? record.context);
  return isSpan ? [record] : undefined;
}

/** Whether a status says that it failed: OTLP's 2, or a name. */
const hasFailed = (status: unknown) =>
  isFields(status) && (status.code === 2 || /ERROR$/.test(String(status.code ?? status.status_code ?? "")));

/** @throws Unused for a span that is no call of a model, or has no answer */
export function callOfSpan(span: Fields): LoggedCall {
  const attributes = plainAttributes(span.attributes);
  const of = (...names: string[]) => names.map((name) => attributes[name]).find((value) => value !== undefined);
  const prompt = opened(of("ai.prompt.messages", "gen_ai.input.messages"));
  if (prompt === undefined) throw new Unused("no_model_call");
  const own = attributes["ai.prompt.messages"] !== undefined;
  const instructions = own ? undefined : opened(attributes["gen_ai.system_instructions"]);
  const system = instructions === undefined ? [] : [{ role: "system", content: instructions }];
  const said = text(of("ai.response.text", "ai.response.object"));
  const content = [
    ...(said === undefined ? [] : [{ type: "text", text: said }]),
    ...callParts(opened(attributes["ai.response.toolCalls"])),
  ];
  const answers = own ? [{ role: "assistant", content }] : listOf(opened(attributes["gen_ai.output.messages"]));
  const isEmpty = own ? content.length === 0 : answers.length === 0;
  if (isEmpty || hasFailed(span.status)) throw new Unused("no_response");
  const context = [span.spanContext, span.context].find(isFields);
  const trace = text(span.traceId ?? span.trace_id ?? context?.traceId ?? context?.trace_id);
  return {
    id: text(span.spanId ?? span.span_id ?? span.id ?? context?.spanId ?? context?.span_id) ?? "",
    trace,
    at: timeOf(span.startTimeUnixNano ?? span.start_time ?? span.startTime ?? span.timestamp),
    session: text(of("session.id", "ai.telemetry.metadata.sessionId", "gen_ai.conversation.id")),
    messages: messagesOf([...system, ...listOf(prompt), ...answers.slice(0, 1)]),
    tools: toolsOf(of("ai.prompt.tools", "gen_ai.tool.definitions")),
    model: text(of("gen_ai.response.model", "gen_ai.request.model", "ai.model.id")),
    demonstration: false,
  };
}

/** As a text whose order is that of time: nanoseconds, [seconds, nanoseconds], or a date. */
function timeOf(value: unknown): string {
  if (Array.isArray(value)) return value.map((part) => String(part).padStart(12, "0")).join(".");
  return typeof value === "string" && /^\d{4}-/.test(value) ? value : String(value ?? "").padStart(24, "0");
}

/** Langfuse writes camelCase in its API and snake_case in its exports. */
export const isObservation = (record: Fields) =>
  "input" in record && "output" in record && ("traceId" in record || "trace_id" in record || "observations" in record);

/** The observations of a line: one, or those of a trace that has them inside. */
export function observationsIn(record: Fields): Fields[] {
  const inside = opened(record.observations);
  if (!Array.isArray(inside) || !inside.some(isFields)) return [record];
  const session = record.sessionId ?? record.session_id;
  return inside
    .filter(isFields)
    .map((one) => ({ traceId: record.id, ...one, ...(session ? { sessionId: session } : {}) }));
}

const isMessage = (value: unknown): value is Fields =>
  isFields(value) &&
  ("tool_calls" in value ||
    ("role" in value && ("content" in value || "parts" in value)) ||
    Object.keys(value).join() === "content");

/** A generation's answer: a message, alone or in a list or a response; the AI SDK's calls; or what was written, maybe JSON. */
function answerOf(given: unknown): Fields {
  const output = opened(given);
  const choice = isFields(output) && Array.isArray(output.choices) ? output.choices[0] : undefined;
  const last = isFields(choice) ? choice.message : Array.isArray(output) ? output.at(-1) : output;
  if (isMessage(last)) return last;
  if (isFields(output) && Array.isArray(output.choices) && !output.choices.some((one) => typeof one === "string"))
    throw new Unused("no_response");
  if (Array.isArray(output) && isFields(last) && "toolName" in last) return { content: callParts(output) };
  return { content: typeof output === "string" ? output : typeof given === "string" ? given : toJson(output) };
}

/** @throws Unused for one that is no generation, or has no answer */
export function callOfObservation(record: Fields): LoggedCall {
  const type = text(record.type);
  if (type !== undefined && type !== "GENERATION") throw new Unused("no_model_call");
  const input = opened(record.input);
  const messages = isFields(input) ? (input.messages ?? input.prompt) : input;
  const output = opened(record.output);
  if (output === null || output === undefined || output === "" || record.level === "ERROR")
    throw new Unused("no_response");
  return {
    id: text(record.id) ?? "",
    trace: text(record.traceId ?? record.trace_id),
    at: timeOf(record.startTime ?? record.start_time),
    session: text(record.sessionId ?? record.session_id),
    messages: messagesOf([
      ...listOf(typeof messages === "string" ? [{ role: "user", content: messages }] : messages),
      { role: "assistant", ...answerOf(record.output) },
    ]),
    tools: toolsOf(isFields(input) ? input.tools : (record.tool_definitions ?? record.tools)),
    model: text(record.model ?? record.provided_model_name ?? record.providedModelName),
    demonstration: false,
  };
}

/** OpenAI's chat form: a training file's row, or a request with its response. */
export const isChat = (record: Fields) =>
  Array.isArray(record.messages) || (isFields(record.request) && Array.isArray(record.request.messages));

/** @throws Unused */
export function callOfChat(record: Fields, id: string): LoggedCall {
  const request = isFields(record.request) ? record.request : record;
  const response = isFields(record.response) ? record.response : undefined;
  const body = isFields(response?.body) ? response.body : response;
  const choice = listOf(body?.choices)[0];
  if (response && !isFields(choice)) throw new Unused("no_response");
  if (listOf(request.messages).some((one) => isFields(one) && one.weight === 0)) throw new Unused("excluded_turn");
  const messages = [...listOf(request.messages), ...(isFields(choice) ? [choice.message] : [])];
  return {
    id,
    trace: undefined,
    at: "",
    session: text(record.session_id ?? request.user),
    messages: messagesOf(messages),
    tools: toolsOf(request.tools),
    model: text(body?.model ?? request.model),
    demonstration: response === undefined,
  };
}

/** `POST /v1/responses`: OpenAI's Responses API over the turns of chats. */
import { toJson } from "../util/index.js";
import { allOf, logprobsOfText, newAnswerId, nowSeconds, thoughtTokens } from "./answers.js";
import { tokenLogprobs } from "./chat-route.js";
import { badRequest, type ErrorForm } from "./errors.js";
import type { Exchange } from "./exchange.js";
import type { Answer, ServedModel } from "./model.js";
import { chatOfResponses, itemsOf, type ResponseItem, type ResponsesRequest } from "./responses-request.js";
import { prepareTurns, type Turns } from "./turns.js";

/** As the API's own event, and with the body of an answer, which OpenAI's clients throw. */
export const responsesErrors: ErrorForm = {
  body: ({ body }) => body,
  event: ({ body, code, message, param }) => ({
    name: "error",
    data: { type: "error", code, message, param, ...body },
  }),
};

type Status = "in_progress" | "completed" | "incomplete";

/** Items of a response, which a client sends back as they are. */
type OutputItem = ResponseItem & { readonly id: string };

const reasoningItem = (id: string, text: string) =>
  ({ id, type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }] }) as const;
const outputText = (text: string, logprobs: readonly object[]) =>
  ({ type: "output_text", text, annotations: [], logprobs: [...logprobs] }) as const;
const messageItem = (id: string, status: Status, content: ReturnType<typeof outputText>[]) =>
  ({ id, type: "message", status, role: "assistant", content }) as const;
const callItem = (id: string, status: Status, call: { call_id: string; name: string; arguments: string }) =>
  ({ id, type: "function_call", status, ...call }) as const;

const callsOf = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: args }) => ({ call_id: id as string, name, arguments: toJson(args) }));

/** The conversation's items before the response. @throws ApiError (400) */
function conversationOf(model: ServedModel, request: ResponsesRequest): ResponseItem[] {
  const { previous_response_id: previous } = request;
  const earlier = previous == null ? [] : model.responses.conversation(previous);
  if (!earlier) {
    const why = `Previous response with id '${previous}' not found. Responses are kept in memory while there is room, and with 'store' alone: send all items.`;
    throw badRequest(why, "previous_response_id", "previous_response_not_found");
  }
  return itemsOf(request, earlier, (id) => model.responses.item(id));
}

/** The fields of a response that its request determines. */
function echoed(request: ResponsesRequest) {
  return {
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens === Infinity ? null : (request.max_output_tokens ?? null),
    max_tool_calls: null,
    metadata: request.metadata ?? {},
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: request.previous_response_id ?? null,
    reasoning: { effort: null, summary: null, ...request.reasoning },
    service_tier: "default",
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: { format: request.text?.format ?? { type: "text" } },
    tool_choice: request.tool_choice ?? "auto",
    tools: request.tools ?? [],
    top_p: request.top_p ?? 1,
    truncation: "disabled",
    background: false,
    user: request.user ?? null,
  };
}

function usageOf(model: ServedModel, { conversation }: Turns, answer: Answer) {
  const output = answer.segment.ids.length;
  return {
    input_tokens: conversation.length,
    input_tokens_details: { cached_tokens: answer.kept },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: thoughtTokens(model, answer) },
    total_tokens: conversation.length + output,
  };
}

export async function respond(model: ServedModel, request: ResponsesRequest, exchange: Exchange): Promise<void> {
  const input = conversationOf(model, request);
  const turns = await prepareTurns(model, chatOfResponses(request, input), exchange.signal);
  const id = newAnswerId("resp");
  const head = { id, object: "response", created_at: nowSeconds(), model: model.name, ...echoed(request) };
  const unfinished = { ...head, status: "in_progress", error: null, incomplete_details: null, output: [], usage: null };
  const ended = (answer: Answer): Status => (answer.stop === "stop" ? "completed" : "incomplete");

  /** The whole response, which later requests may name. */
  const finished = (answer: Answer, output: readonly OutputItem[]) => {
    if (request.store !== false) model.responses.add(id, input, output);
    const problems = turns.problemsOf(answer);
    const status = ended(answer);
    return {
      ...{ ...head, status, error: null },
      incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
      output,
      usage: usageOf(model, turns, answer),
      hone: { ...turns.hone, ...problems },
      ...(request.return_token_ids ? { prompt_token_ids: turns.promptIds(), token_ids: [...answer.segment.ids] } : {}),
    };
  };
  const logprobsOf = (answer: Answer) =>
    turns.likeliest === undefined ? [] : tokenLogprobs(model, logprobsOfText(answer));

  if (!request.stream) {
    const [answer] = (await allOf(1, model, exchange.signal, (index, signal) => turns.sample(index, signal))) as [
      Answer,
    ];
    const reasoning = turns.reasoningOf(answer);
    const calls = callsOf(answer);
    const said = answer.read.said;
    const text = [outputText(said, logprobsOf(answer))];
    exchange.json(
      finished(answer, [
        ...(reasoning ? [reasoningItem(newAnswerId("rs"), reasoning)] : []),
        ...(said !== "" || calls.length === 0 ? [messageItem(newAnswerId("msg"), ended(answer), text)] : []),
        ...calls.map((call) => callItem(newAnswerId("fc"), "completed", call)),
      ]),
    );
    return;
  }

  let number = 0;
  const send = (type: string, more: object) => exchange.event({ type, sequence_number: number++, ...more }, type);
  const output: OutputItem[] = [];
  /** The item that is being written; `end` sends what closes it. */
  let open: { readonly kind: "reasoning" | "message"; readonly id: string; text: string } | undefined;
  const place = () => ({
    output_index: output.length,
    item_id: (open as NonNullable<typeof open>).id,
    content_index: 0,
  });
  const begin = (kind: "reasoning" | "message") => {
    const id = newAnswerId(kind === "reasoning" ? "rs" : "msg");
    open = { kind, id, text: "" };
    const item = kind === "reasoning" ? { ...reasoningItem(id, ""), content: [] } : messageItem(id, "in_progress", []);
    const part = kind === "reasoning" ? { type: "reasoning_text", text: "" } : outputText("", []);
    send("response.output_item.added", { output_index: output.length, item });
    send("response.content_part.added", { ...place(), part });
  };
  const write = (kind: "reasoning" | "message", delta: string | undefined) => {
    if (!delta) return;
    if (open?.kind !== kind) {
      end("completed", []);
      begin(kind);
    }
    (open as NonNullable<typeof open>).text += delta;
    if (kind === "reasoning") send("response.reasoning_text.delta", { ...place(), delta });
    else send("response.output_text.delta", { ...place(), delta, logprobs: [] });
  };
  const end = (status: Status, logprobs: readonly object[]) => {
    if (!open) return;
    const { kind, id, text } = open;
    const said = outputText(text, logprobs);
    if (kind === "reasoning") send("response.reasoning_text.done", { ...place(), text });
    else send("response.output_text.done", { ...place(), text, logprobs });
    send("response.content_part.done", {
      ...place(),
      part: kind === "reasoning" ? { type: "reasoning_text", text } : said,
    });
    const item = kind === "reasoning" ? reasoningItem(id, text) : messageItem(id, status, [said]);
    send("response.output_item.done", { output_index: output.length, item });
    output.push(item);
    open = undefined;
  };

  await allOf(1, model, exchange.signal, async (index, signal) => {
    send("response.created", { response: unfinished });
    send("response.in_progress", { response: unfinished });
    const answer = await turns.sample(index, signal, ({ content, reasoning_content: reasoning }) => {
      write("reasoning", reasoning);
      write("message", content);
    });
    const calls = callsOf(answer);
    if (open?.kind === "reasoning") end("completed", []);
    if (!open && calls.length === 0) begin("message");
    end(ended(answer), logprobsOf(answer));
    for (const call of calls) {
      const item = callItem(newAnswerId("fc"), "completed", call);
      const at = { output_index: output.length };
      send("response.output_item.added", { ...at, item: { ...item, status: "in_progress", arguments: "" } });
      send("response.function_call_arguments.delta", { ...at, item_id: item.id, delta: call.arguments });
      const { name, arguments: args } = call;
      send("response.function_call_arguments.done", { ...at, item_id: item.id, name, arguments: args });
      send("response.output_item.done", { ...at, item });
      output.push(item);
    }
    const response = finished(answer, output);
    send(`response.${response.status}`, { response });
  });
  exchange.end(false);
}

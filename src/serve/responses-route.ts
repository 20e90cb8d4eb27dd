/** `POST /v1/responses`: OpenAI's Responses API over the turns of chats. */
import { logprobsOfText, newAnswerId, nowSeconds, thoughtTokens } from "./answers.js";
import { tokenLogprobs } from "./chat-route.js";
import type { Delta } from "./deltas.js";
import { badRequest, type ErrorForm } from "./errors.js";
import type { Exchange } from "./exchange.js";
import type { Answer, ServedModel } from "./model.js";
import { callsOf, type OutputItem, type Status } from "./responses-items.js";
import { chatOfResponses, itemsOf, type ResponseItem, type ResponsesRequest } from "./responses-request.js";
import { ResponseWriter } from "./responses-writer.js";
import { prepareTurns, type Turns } from "./turns.js";

/** As the API's own event, and with the body of an answer, which OpenAI's clients throw. */
export const responsesErrors: ErrorForm = {
  body: ({ body }) => body,
  event: ({ body, code, message, param }) => ({
    name: "error",
    data: { type: "error", code, message, param, ...body },
  }),
};

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

const statusOf = (answer: Answer): Status => (answer.stop === "stop" ? "completed" : "incomplete");

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

/** A response before its turn, and with its answer. */
function replyTo(model: ServedModel, request: ResponsesRequest, input: readonly ResponseItem[], turns: Turns) {
  const { store, return_token_ids: wantsIds } = request;
  const id = newAnswerId("resp");
  const head = { id, object: "response", created_at: nowSeconds(), model: model.name, ...echoed(request) };
  const unfinished = { status: "in_progress", error: null, incomplete_details: null, output: [], usage: null };
  return {
    unfinished: { ...head, ...unfinished },
    logprobs: (answer: Answer): object[] =>
      turns.likeliest === undefined ? [] : tokenLogprobs(model, logprobsOfText(answer)),
    /** The whole response, which later requests may name. */
    finished: (answer: Answer, output: readonly OutputItem[]) => {
      if (store !== false) model.responses.add(id, input, output);
      const status = statusOf(answer);
      return {
        ...head,
        status,
        error: null,
        incomplete_details: status === "incomplete" ? { reason: "max_output_tokens" } : null,
        output,
        usage: usageOf(model, turns, answer),
        hone: { ...turns.hone, ...turns.problemsOf(answer) },
        ...(wantsIds ? { prompt_token_ids: turns.promptIds(), token_ids: [...answer.segment.ids] } : {}),
      };
    },
  };
}

export async function respond(model: ServedModel, request: ResponsesRequest, exchange: Exchange): Promise<void> {
  const input = conversationOf(model, request);
  const turns = await prepareTurns(model, chatOfResponses(request, input), exchange.signal);
  const reply = replyTo(model, request, input, turns);
  model.seats.checkRoom(1);
  const items = new ResponseWriter(request.stream ? exchange : undefined);
  items.send("response.created", { response: reply.unfinished });
  items.send("response.in_progress", { response: reply.unfinished });
  const write = ({ content, reasoning_content: reasoning }: Delta) => {
    items.write("reasoning", reasoning);
    items.write("message", content);
  };
  const answer = await turns.sample(0, exchange.signal, request.stream ? write : undefined);
  if (!request.stream) write({ content: answer.read.said, reasoning_content: turns.reasoningOf(answer) });
  const calls = callsOf(answer);
  items.endText(statusOf(answer), reply.logprobs(answer), calls.length);
  for (const call of calls) items.call(call);
  const response = reply.finished(answer, items.output);
  if (!request.stream) return exchange.json(response);
  items.send(`response.${response.status}`, { response });
  exchange.end(false);
}

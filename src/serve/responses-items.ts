/** Items of a response, as OpenAI's Responses API has them. */
import { toJson } from "../core/util/json.js";
import type { Answer } from "./model.js";
import type { ResponseItem } from "./responses-request.js";

export type Status = "in_progress" | "completed" | "incomplete";

/** Items of a response, which a client sends back as they are. */
export type OutputItem = ResponseItem & { readonly id: string };

export const reasoningItem = (id: string, text: string) =>
  ({ id, type: "reasoning", summary: [], content: [{ type: "reasoning_text", text }] }) as const;
export const outputText = (text: string, logprobs: readonly object[]) =>
  ({ type: "output_text", text, annotations: [], logprobs: [...logprobs] }) as const;
export const messageItem = (id: string, status: Status, content: ReturnType<typeof outputText>[]) =>
  ({ id, type: "message", status, role: "assistant", content }) as const;
export const callItem = (id: string, status: Status, call: { call_id: string; name: string; arguments: string }) =>
  ({ id, type: "function_call", status, ...call }) as const;

export const callsOf = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: args }) => ({ call_id: id as string, name, arguments: toJson(args) }));

/** From the AI SDK's requests to those of the endpoint: the same conversation is the same there. */
import {
  type LanguageModelV3CallOptions,
  type LanguageModelV3Message,
  type LanguageModelV3ToolResultOutput,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import { toJson } from "../../core/util/json.js";
import { type ApiChoice, type ApiMessage, type ApiTool, type ChatRequest, writtenCall } from "../../serve/requests.js";

const unsupported = (functionality: string, why: string) =>
  new UnsupportedFunctionalityError({ functionality, message: `${functionality}: ${why}` });

/** @throws UnsupportedFunctionalityError for parts other than text */
function resultText(output: LanguageModelV3ToolResultOutput): string {
  switch (output.type) {
    case "text":
    case "error-text":
      return output.value;
    case "json":
    case "error-json":
      return toJson(output.value);
    case "execution-denied":
      return output.reason ?? "The tool was not run: it was denied.";
    case "content":
      return output.value
        .map((part) => {
          if (part.type === "text") return part.text;
          throw unsupported(`a tool result of the type ${part.type}`, "models here read text alone");
        })
        .join("");
  }
}

function messagesOf(message: LanguageModelV3Message): ApiMessage[] {
  if (message.role === "system") return [{ role: "system", content: message.content }];
  if (message.role === "tool") {
    return message.content.flatMap((part): ApiMessage[] =>
      part.type === "tool-result"
        ? [{ role: "tool", content: resultText(part.output), tool_call_id: part.toolCallId }]
        : [],
    );
  }
  const text: string[] = [];
  const calls: ReturnType<typeof writtenCall>[] = [];
  for (const part of message.content) {
    if (part.type === "text") text.push(part.text);
    else if (part.type === "file") throw unsupported("file parts", "models here read text alone");
    else if (part.type === "tool-call") {
      calls.push(writtenCall(part.toolCallId, part.toolName, toJson(part.input)));
    }
    // Thoughts stay as they were sampled.
  }
  const content = text.join("");
  if (message.role === "user") return [{ role: "user", content }];
  return [{ role: "assistant", content, ...(calls.length > 0 ? { tool_calls: calls } : {}) }];
}

function apiTools({ tools = [], toolChoice }: LanguageModelV3CallOptions): ApiTool[] {
  if (toolChoice?.type === "none") return [];
  return tools.map((tool) => {
    if (tool.type !== "function") throw unsupported(`the tool ${tool.id}`, "there are no tools of providers here");
    // The name of the JSON Schema draft is useless to a model.
    const { $schema: _, ...parameters } = tool.inputSchema as Record<string, unknown>;
    const { name, description, strict } = tool;
    return { type: "function", function: { name, description, parameters, ...(strict ? { strict } : {}) } };
  });
}

function apiChoice({ toolChoice }: LanguageModelV3CallOptions): ApiChoice {
  return toolChoice?.type === "tool"
    ? { type: "function", function: { name: toolChoice.toolName } }
    : (toolChoice?.type ?? "auto");
}

/**
 * A request as /v1/chat/completions takes it; its values are as they were given, not checked.
 *
 * @throws UnsupportedFunctionalityError for files, and for tools of providers
 */
export function chatRequestOf(options: LanguageModelV3CallOptions, model: string): ChatRequest {
  const { responseFormat, stopSequences, frequencyPenalty, presencePenalty } = options;
  const schema = responseFormat?.type === "json" ? (responseFormat.schema as Record<string, unknown>) : undefined;
  return {
    model,
    messages: options.prompt.flatMap(messagesOf),
    tools: apiTools(options),
    tool_choice: apiChoice(options),
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    seed: options.seed,
    max_completion_tokens: options.maxOutputTokens,
    stop: stopSequences && stopSequences.length > 0 ? stopSequences : undefined,
    response_format:
      responseFormat?.type === "json" ? { type: "json_schema", json_schema: { name: "answer", schema } } : undefined,
    // Others than 0 are refused by who reads the request.
    frequency_penalty: frequencyPenalty as 0 | undefined,
    presence_penalty: presencePenalty as 0 | undefined,
  };
}

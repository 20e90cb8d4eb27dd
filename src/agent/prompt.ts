/** From the AI SDK's prompts and tools to the endpoint's messages and tools: the same conversation is the same there. */
import {
  type LanguageModelV3CallOptions,
  type LanguageModelV3Message,
  type LanguageModelV3ToolResultOutput,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import type { ApiChoice, ApiMessage, ApiTool } from "../serve/index.js";
import { toJson } from "../util/index.js";

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
  const calls: { id: string; type: "function"; function: { name: string; arguments: string } }[] = [];
  for (const part of message.content) {
    if (part.type === "text") text.push(part.text);
    else if (part.type === "file") throw unsupported("file parts", "models here read text alone");
    else if (part.type === "tool-call") {
      const { toolCallId: id, toolName: name, input } = part;
      calls.push({ id, type: "function", function: { name, arguments: toJson(input) } });
    }
    // Thoughts stay as they were sampled.
  }
  const content = text.join("");
  if (message.role === "user") return [{ role: "user", content }];
  return [{ role: "assistant", content, ...(calls.length > 0 ? { tool_calls: calls } : {}) }];
}

/** @throws UnsupportedFunctionalityError */
export const apiMessages = ({ prompt }: Pick<LanguageModelV3CallOptions, "prompt">): ApiMessage[] =>
  prompt.flatMap(messagesOf);

/** @throws UnsupportedFunctionalityError */
export function apiTools({
  tools = [],
  toolChoice,
}: Pick<LanguageModelV3CallOptions, "tools" | "toolChoice">): ApiTool[] {
  if (toolChoice?.type === "none") return [];
  return tools.map((tool) => {
    if (tool.type !== "function") throw unsupported(`the tool ${tool.id}`, "there are no tools of providers here");
    // The name of the JSON Schema draft is useless to a model.
    const { $schema: _, ...parameters } = tool.inputSchema as Record<string, unknown>;
    const { name, description, strict } = tool;
    return { type: "function", function: { name, description, parameters, ...(strict ? { strict } : {}) } };
  });
}

export function apiChoice({ toolChoice }: Pick<LanguageModelV3CallOptions, "toolChoice">): ApiChoice {
  return toolChoice?.type === "tool"
    ? { type: "function", function: { name: toolChoice.toolName } }
    : (toolChoice?.type ?? "auto");
}

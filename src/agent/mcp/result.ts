/** Converts a server's result for the model: its text, cut to a limit, and a note about binary content. */

import type { ServerEvent } from "../../core/task/servers.js";
import { ToolError } from "../../core/task/task.js";
import { cutText } from "../../core/util/text.js";

type Block = { readonly type: string } & Readonly<Record<string, unknown>>;

export interface CallResult {
  readonly content?: readonly Block[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean;
}

const count = (n: number) => n.toLocaleString("en-US");

/** Base64 encodes 3 bytes in 4 characters. */
const bytesOf = (data: unknown) => (typeof data === "string" ? Math.floor((data.length * 3) / 4) : 0);

function leftOut(kind: string, type: unknown, data: unknown): string {
  return `[${kind}${typeof type === "string" ? ` ${type}` : ""}, ${count(bytesOf(data))} bytes, left out: only text is shown]`;
}

function textOfBlock(block: Block, seen: (event: ServerEvent) => void): string {
  const { type, text, data, mimeType, resource, uri, name } = block;
  if (type === "text" && typeof text === "string") return text;
  if (type === "resource_link") return `[resource ${name ?? ""} ${uri ?? ""}]`;
  if (type === "resource") {
    const { text, blob, mimeType, uri } = (resource ?? {}) as Record<string, unknown>;
    if (typeof text === "string") return text;
    seen("binary_left_out");
    return leftOut(`resource ${uri ?? ""}`, mimeType, blob);
  }
  seen("binary_left_out");
  return leftOut(type, mimeType, data);
}

/**
 * @param budget maximum number of characters, not counting the note about the cut
 * @throws ToolError when the result is an error, with its text
 */
export function resultText(result: CallResult, budget: number, seen: (event: ServerEvent) => void): string {
  const blocks = result.content ?? [];
  const whole =
    blocks.length === 0 && result.structuredContent !== undefined
      ? JSON.stringify(result.structuredContent)
      : blocks.map((block) => textOfBlock(block, seen)).join("\n");
  let text = whole;
  if (whole.length > budget) {
    seen("result_cut");
    const kept = cutText(whole, budget);
    text = `${kept}\n[cut: these are the first ${count(kept.length)} of ${count(whole.length)} characters]`;
  }
  if (result.isError) throw new ToolError(text || "the tool failed and did not say why");
  return text;
}

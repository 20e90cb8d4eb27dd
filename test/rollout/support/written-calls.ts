/**
 * Texts as models write them, with what hone reads in them and what vLLM's parsers did. vLLM's side was recorded with its
 * release 0.15.1 (`extract_tool_calls` of the parsers hermes, llama3_json and mistral); "mistral v11" are the texts of
 * newer tokenizers, which vLLM reads without `[ARGS]` and `[CALL_ID]`: Mistral's own decoder leaves them out.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ToolCall } from "../../../src/core/task/task.js";
import { packageRoot } from "../../../src/core/util/paths.js";

export interface WrittenText {
  readonly format: "hermes" | "llama3" | "mistral" | "mistral v11";
  readonly about: string;
  readonly text: string;
  readonly calls: readonly ToolCall[];
  /** What the model is told of malformed calls. */
  readonly errors: readonly string[];
  readonly content: string;
  /** Arguments are text there. */
  readonly vllm:
    | { readonly calls: readonly { name: string; arguments: string }[]; readonly content: string }
    | { readonly error: string };
  /** Why hone reads it otherwise. */
  readonly why?: string;
}

export const writtenTexts = JSON.parse(
  readFileSync(join(packageRoot, "test/rollout/support/written-calls.json"), "utf8"),
) as readonly WrittenText[];

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // vLLM hands on what is no JSON.
    return text;
  }
}

/** Do both read the same? Ids aside, which vLLM draws anew. */
export function readAlike({ calls, errors, content, vllm }: WrittenText): boolean {
  if ("error" in vllm || errors.length > 0 || vllm.content.trim() !== content) return false;
  const plain = (call: { name: string }, args: unknown) => JSON.stringify([call.name, args]);
  const ours = calls.map((call) => plain(call, call.arguments));
  const theirs = vllm.calls.map((call) => plain(call, parsed(call.arguments)));
  return ours.join() === theirs.join();
}

/** The tool-call formats. To add one, write a file like the others, an entry here, and its name in options.ts. */

import type { CallableTool, ToolFormat } from "../../core/rollout/conversation.js";
import { HoneError } from "../../core/util/errors.js";
import { granite } from "./granite.js";
import { hermes } from "./hermes.js";
import { json } from "./json.js";
import { lfm2 } from "./lfm2.js";
import { llama3 } from "./llama3.js";
import { mistral } from "./mistral.js";
import { phi4 } from "./phi4.js";
import { pythonic } from "./pythonic.js";
import { qwen3coder } from "./qwen3coder.js";
import { xlam } from "./xlam.js";

export const formats: readonly ToolFormat[] = [
  hermes,
  llama3,
  mistral,
  granite,
  pythonic,
  xlam,
  phi4,
  qwen3coder,
  lfm2,
  json,
];

/** @throws HoneError when there is none of that name */
export function formatNamed(name: string): ToolFormat {
  const format = formats.find((one) => one.name === name);
  if (!format) throw new HoneError(`there is no tool-call format ${name}; there are ${formatNames()}`);
  return format;
}

export const formatNames = () => formats.map(({ name }) => name).join(", ");

/**
 * The format that can read the template's own calls.
 *
 * @param written a turn with one call of the tool and nothing else, as the template writes it
 */
export function formatOf(written: string, tool: CallableTool): ToolFormat | undefined {
  return formats.find(({ read }) => {
    const { content, calls } = read(written, [tool]);
    const [call] = calls;
    return content === "" && calls.length === 1 && call?.kind === "call" && call.call.name === tool.name;
  });
}

/** The format that a template asks for in words. @param source of the template */
export const formatAsked = (source: string): ToolFormat | undefined =>
  formats.find(({ asks }) => asks !== undefined && source.includes(asks));

/**
 * Parses tool calls typed by a person: `search_inbox Falcon, deadline`, `search Falcon | from_addr=a@b.com`, or the
 * arguments as JSON. Values are separated by " | " and assigned to the tool's parameters in order unless they name one.
 */
import type { ToolCall, ToolSchema } from "../../core/task/task.js";
import { parseJson } from "../../core/util/json.js";

interface Parameter {
  readonly name: string;
  readonly kind: "list" | "number" | "text";
}

function kindOf(schema: unknown): Parameter["kind"] {
  if (typeof schema !== "object" || schema === null) return "text";
  const { type, anyOf } = schema as { type?: string | string[]; anyOf?: unknown[] };
  const types = [type].flat();
  if (types.includes("array")) return "list";
  if (types.includes("number") || types.includes("integer")) return "number";
  // Of alternatives (usually a value or null) take the first that is not text.
  return anyOf?.map(kindOf).find((kind) => kind !== "text") ?? "text";
}

function parametersOf(tool: ToolSchema): Parameter[] {
  const properties = (tool.function.parameters.properties ?? {}) as Record<string, unknown>;
  return Object.entries(properties).map(([name, schema]) => ({ name, kind: kindOf(schema) }));
}

/** Finds a tool by its name or an unambiguous prefix. */
function toolNamed(name: string, tools: readonly ToolSchema[]): ToolSchema | undefined {
  const exact = tools.find((tool) => tool.function.name === name);
  const begun = tools.filter((tool) => tool.function.name.startsWith(name));
  return exact ?? (begun.length === 1 ? begun[0] : undefined);
}

function typedValue(kind: Parameter["kind"], text: string): unknown {
  if (kind === "list") {
    const items = text.includes(",") ? text.split(",") : text.split(/\s+/);
    return items.map((item) => item.trim()).filter((item) => item !== "");
  }
  // Text that is not a number stays text, so that the tool's schema reports the error.
  return kind === "number" && text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** Parses one line; returns `reason` if it is not a call. */
export function readCallLine(line: string, tools: readonly ToolSchema[]): ToolCall | { reason: string } {
  const [, name = "", rest = ""] = /^(\S*)\s*(.*)$/s.exec(line.trim()) ?? [];
  const tool = toolNamed(name, tools);
  if (!tool) return { reason: `no tool is called ${name}; there are ${tools.map((t) => t.function.name).join(", ")}` };
  if (rest.startsWith("{")) {
    try {
      return { name: tool.function.name, arguments: parseJson(rest) as Record<string, unknown> };
    } catch {
      return { reason: "the arguments begin with { but are not valid JSON" };
    }
  }
  const open = parametersOf(tool);
  const args: Record<string, unknown> = {};
  for (const piece of rest === "" ? [] : rest.split("|").map((text) => text.trim())) {
    const named = open.findIndex((parameter) => piece.startsWith(`${parameter.name}=`));
    const [parameter] = open.splice(Math.max(named, 0), 1);
    if (!parameter) return { reason: `${tool.function.name} takes no more values than ${usage(tool)}` };
    const text = named < 0 ? piece : piece.slice(parameter.name.length + 1).trim();
    args[parameter.name] = typedValue(parameter.kind, text);
  }
  // A missing value is an empty list, so "return not found" need not give an empty list of mails.
  for (const { name, kind } of open) if (kind === "list" && requiredOf(tool).has(name)) args[name] = [];
  return { name: tool.function.name, arguments: args };
}

const requiredOf = (tool: ToolSchema) => new Set((tool.function.parameters.required ?? []) as string[]);

/** Describes how to type a call of this tool. */
export function usage(tool: ToolSchema): string {
  const required = requiredOf(tool);
  const shown = parametersOf(tool).map(({ name, kind }) => {
    const value = kind === "list" ? `${name} ...` : name;
    return required.has(name) ? value : `[${name}=...]`;
  });
  return `${tool.function.name} ${shown.join(" | ")}`;
}

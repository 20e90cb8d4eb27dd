/** What a task's tools return, beside what the model reads of it. */
import type { AnyTask, Tool } from "../../core/task/task.js";
import { toJson } from "../../core/util/json.js";
import { type Finding, warning } from "./findings.js";

const nameOf = (value: object) => Object.prototype.toString.call(value).slice(8, -1).toLowerCase();

/** A value that JSON cannot write, and what it makes of it; undefined where it writes it whole. */
function lost(value: unknown): readonly [what: string, fate: string] | undefined {
  if (typeof value === "number" && !Number.isFinite(value)) return [String(value), "writes as null"];
  if (typeof value === "function" || typeof value === "symbol") return [`a ${typeof value}`, "leaves out"];
  if (typeof value !== "object" || value === null || Array.isArray(value) || "toJSON" in value) return undefined;
  const plain = [Object.prototype, null].includes(Object.getPrototypeOf(value));
  return plain || Object.keys(value).length > 0 ? undefined : [`a ${nameOf(value)}`, "writes as {}"];
}

/** The first part of a result that JSON loses, and where it is: "NaN at .rows[0].price, which JSON writes as null". */
function lostAsJson(result: unknown): string | undefined {
  const paths = new Map<unknown, string>();
  let found: string | undefined;
  try {
    JSON.stringify(result, function (this: Record<string, unknown>, key, value: unknown) {
      const above = paths.get(this);
      const path = above === undefined ? "" : Array.isArray(this) ? `${above}[${key}]` : `${above}.${key}`;
      // The value itself: one with toJSON has been replaced.
      const [what, fate] = lost(this[key]) ?? [];
      if (what !== undefined) found ??= `${what}${path === "" ? "" : ` at ${path}`}, which JSON ${fate}`;
      if (typeof value === "object" && value !== null) paths.set(value, path);
      return typeof value === "bigint" ? String(value) : value;
    });
  } catch {
    // A circle: the rollout itself says that the tool failed.
  }
  return found;
}

/** The task, whose tools' results are looked at before the model gets them. */
export class SeenResults {
  readonly task: AnyTask;
  readonly #lost = new Map<string, string>();
  /** The longest text that each tool returned. */
  readonly longest = new Map<string, string>();

  constructor(task: AnyTask) {
    this.task = { ...task, tools: task.tools.map((tool) => this.#seen(tool)) };
  }

  *findings(): Iterable<Finding> {
    for (const [name, what] of this.#lost)
      yield warning("result_lost", `the tool ${name} returned ${what}; return what JSON can write, or a text`);
  }

  #seen(tool: Tool): Tool {
    const look = (result: unknown) => {
      const what = typeof result === "string" ? undefined : lostAsJson(result);
      if (what !== undefined && !this.#lost.has(tool.name)) this.#lost.set(tool.name, what);
      const text = typeof result === "string" ? result : (toJson(result ?? null) ?? "");
      if (text.length > (this.longest.get(tool.name)?.length ?? 0)) this.longest.set(tool.name, text);
      return result;
    };
    return { ...tool, execute: async (args, context) => look(await tool.execute(args, context)) };
  }
}

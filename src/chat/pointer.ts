/** References within a JSON Schema (`#/$defs/x`). */
import { valueAt } from "../core/util/json.js";

/** The steps of a JSON pointer in a URI's fragment (RFC 6901); undefined where it is none. */
function stepsOf(reference: string): string[] | undefined {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  try {
    const steps = reference.split("/").slice(1).map(decodeURIComponent);
    return steps.map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  } catch {
    // A % that begins no escape.
    return undefined;
  }
}

/** What a reference within the schema leads to; undefined where that is nothing. */
export function referred(root: unknown, reference: string): unknown {
  const steps = stepsOf(reference);
  return steps && valueAt(root, steps);
}

/** What transformers and hone make of templates. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { JinjaTemplate } from "../../src/chat/jinja/template.js";
import { UnsupportedTemplate } from "../../src/chat/jinja/values.js";
import { packageRoot } from "../../src/core/util/paths.js";

export interface Case {
  readonly source: string;
  readonly variables: Readonly<Record<string, unknown>>;
}

/** In one go: loading transformers takes long. Null: it raises. */
export function transformers(python: string, cases: readonly Case[]): (string | null)[] {
  const script = join(packageRoot, "test/jinja/render.py");
  const options = { input: JSON.stringify(cases), maxBuffer: 2 ** 30, stdio: ["pipe", "pipe", "ignore"] } as const;
  return JSON.parse(execFileSync(python, [script], { ...options, stdio: [...options.stdio] }).toString());
}

const DATE: Readonly<Record<string, string>> = { Y: "2024", m: "07", d: "26", B: "July", b: "Jul", A: "Friday" };
const functions = {
  strftime_now: (format = "") => format.replace(/%([a-zA-Z])/g, (_, letter: string) => DATE[letter] ?? `?${letter}`),
};

export type Outcome = { readonly text: string } | { readonly refused: string; readonly unsupported: boolean };

export function ours({ source, variables }: Case): Outcome {
  try {
    return { text: new JinjaTemplate(source).render(variables, functions) };
  } catch (error) {
    return { refused: (error as Error).message, unsupported: error instanceof UnsupportedTemplate };
  }
}

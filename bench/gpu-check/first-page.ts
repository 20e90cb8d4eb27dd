/** The page of `yarn gpu-check --first`: what the card did beside what was expected, as HTML that needs nothing else. */
import type { Check } from "../../src/hone/doctor/check.js";
import type { Hardware } from "../hardware.js";
import type { UpdateReport } from "../learner-update.js";
import { cardOf, expectedDecode, updateArithmetic, updateSeconds } from "./estimates.js";
import type { SpeedRow } from "./speed.js";

/** What one section left, and how it ended. */
export interface Outcome {
  /** "done", "failed", "cut off after 8 minutes", "left out", "not yet". */
  readonly state: string;
  readonly seconds?: number;
  readonly problem?: string;
}

export interface First {
  readonly what: "hone gpu-check --first";
  readonly began: string;
  readonly device: "cuda" | "vulkan" | "cpu";
  /** Tiny shapes: figures say nothing about speed. */
  readonly small: boolean;
  /** The card is a stand-in that does not compute. */
  readonly standIn: boolean;
  readonly hardware: Hardware;
  readonly versions: Readonly<Record<string, string>>;
  /** By name, in order. */
  readonly sections: {
    readonly doctor?: Outcome & { readonly checks?: readonly Check[] };
    readonly prepare?: Outcome;
    readonly parity?: Outcome & { readonly rows?: readonly ParityRow[] };
    readonly steps?: Outcome & Partial<StepsResult>;
    readonly speed?: Outcome & { readonly rows?: readonly SpeedRow[] };
    readonly "update-peft"?: Outcome & { readonly update?: UpdateReport };
    readonly "update-unsloth"?: Outcome & { readonly update?: UpdateReport };
  };
}

interface ParityRow {
  readonly adapter: "with" | "without";
  readonly tokens: number;
  readonly mean: number;
  readonly max: number;
}

interface Memory {
  readonly planned: number | null;
  readonly measured: number | null;
}

interface StepsResult {
  readonly steps: readonly {
    readonly step: number;
    readonly seconds: Record<string, number>;
    readonly mismatch: number | null;
  }[];
  /** Nats up to which engine and learner count as one model. */
  readonly limit: number;
  readonly learner: Memory;
  readonly card: Memory;
}

export interface Line {
  readonly what: string;
  readonly measured: string;
  readonly expected: string;
  /** Of measured to expected, where both are one number. */
  readonly ratio: string;
  readonly from: string;
}

const number = (value: number) => (value >= 100 ? value.toFixed(0) : Number(value.toPrecision(3)).toString());
const nats = (value: number) => `${value.toPrecision(2)} nats`;
const gigabytes = (value: number) => `${(value / 1e9).toFixed(2)} GB`;

interface Pair {
  readonly what: string;
  readonly measured: number | null | undefined;
  readonly expected: number | null | undefined;
  readonly from: string;
  readonly text?: (value: number) => string;
  readonly unit?: string;
}

function lineOf({ what, measured, expected, from, text = number, unit = "" }: Pair): Line {
  const shown = (value: number | null | undefined) =>
    value === null || value === undefined ? "–" : `${text(value)}${unit && ` ${unit}`}`;
  const ratio = measured && expected ? number(measured / expected) : "";
  return { what, measured: shown(measured), expected: shown(expected), ratio, from: expected === null ? "" : from };
}

/** Every figure that was expected, or that says something by itself. */
export function linesOf({ sections, hardware, small }: First): Line[] {
  const card = small ? undefined : cardOf(hardware.gpu);
  const decode = card && expectedDecode(card);
  const { parity, steps, speed } = sections;
  const lines: Line[] = [];
  for (const { adapter, mean } of parity?.rows ?? []) {
    const what = `log-probabilities of the card from those of the CPU, ${adapter} an adapter (mean)`;
    lines.push(lineOf({ what, measured: mean, expected: 0.01, from: "16-bit sums", text: nats }));
  }
  for (const { sequences, with_adapter, without_adapter, llama_batched_bench, ratio } of speed?.rows ?? []) {
    const at = `${sequences} ${sequences === 1 ? "sequence" : "sequences"}`;
    const expected = decode?.get(sequences) ?? null;
    const from = `kernels and bytes counted, of ${card?.title} (yarn bench:card)`;
    lines.push(lineOf({ what: `${at}, with an adapter`, measured: with_adapter, expected, from, unit: "tokens/s" }));
    lines.push(
      lineOf({
        what: `${at}, without an adapter`,
        measured: without_adapter,
        expected: llama_batched_bench ?? null,
        unit: "tokens/s",
        from: `llama-batched-bench here${ratio === undefined ? "" : "; the goal is a ratio of 0.97"}`,
      }),
    );
  }
  for (const { step, seconds, mismatch } of steps?.steps ?? []) {
    const { update = null, total = null } = seconds;
    const words = `step ${step}: seconds${update === null ? "" : `, of them ${number(update)} in the update`}`;
    lines.push(lineOf({ what: words, measured: total, expected: null, from: "", unit: "s" }));
    const what = `step ${step}: engine and learner apart (mean)`;
    lines.push(
      lineOf({ what, measured: mismatch, expected: steps?.limit, from: "the most, by weights and device", text: nats }),
    );
  }
  for (const [what, memory] of [["learner", steps?.learner] as const, ["whole card", steps?.card] as const]) {
    if (!memory) continue;
    const { measured, planned } = memory;
    lines.push(lineOf({ what: `memory: ${what}`, measured, expected: planned, from: "hone's plan", text: gigabytes }));
  }
  for (const name of ["PEFT", "Unsloth"] as const) {
    const update = sections[name === "PEFT" ? "update-peft" : "update-unsloth"]?.update;
    if (!update) continue;
    const expected = card ? updateSeconds(card, update) : null;
    const by = `update of ${update.tokens} tokens by ${name}`;
    const way = name === "PEFT" && update.way ? `, rows by ${update.way}` : "";
    const { seconds, firstSeconds, aboveModel } = update;
    lines.push(lineOf({ what: `${by}${way}`, measured: seconds, expected, from: updateArithmetic, unit: "s" }));
    lines.push(lineOf({ what: `${by}, the first`, measured: firstSeconds, expected: null, from: "", unit: "s" }));
    lines.push(
      lineOf({
        what: `${by}, memory above the model`,
        measured: aboveModel,
        expected: null,
        from: "",
        text: gigabytes,
      }),
    );
  }
  return lines;
}

/** What hone said of the learner on this card, and of doctor's checks what is not well. */
function remarksOf({ sections }: First): string[] {
  const wrong = (sections.doctor?.checks ?? []).filter(({ state }) => state === "wrong" || state === "note");
  return [
    ...wrong.map(({ name, found, mend }) => `doctor, ${name}: ${found}${mend ? ` – ${mend}` : ""}`),
    ...(sections["update-peft"]?.update?.notes ?? []),
    ...(sections["update-unsloth"]?.update?.notes ?? []),
  ];
}

const escaped = (text: string) =>
  text.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one] as string);

const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  `<table><tr>${head.map((one) => `<th>${escaped(one)}</th>`).join("")}</tr>\n${rows
    .map((row) => `<tr>${row.map((cell) => `<td>${escaped(cell)}</td>`).join("")}</tr>`)
    .join("\n")}</table>`;

const STYLE = `body{font:15px/1.45 system-ui,sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color:#1c2024;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5em 0 1.5em}td,th{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #d9dde1;vertical-align:top}
.note{padding:.6em 1em;background:#fff3d6}@media(prefers-color-scheme:dark){body{color:#e6e8ea;background:#16191c}td,th{border-color:#3a4046}.note{background:#4a3b12}}`;

export function firstPage(first: First): string {
  const { hardware, versions, sections, began, device, small, standIn } = first;
  const card = cardOf(hardware.gpu);
  const remarks = remarksOf(first);
  const warnings = [
    ...(standIn ? ["The card is a stand-in that does not compute: only whether a section runs means anything."] : []),
    ...(device === "cuda" ? [] : [`Computed on ${device === "cpu" ? "the CPU" : "a software GPU"}: a rehearsal.`]),
    ...(small ? ["Tiny shapes: the figures say nothing about speed."] : []),
    ...((card && expectedDecode(card).size > 0) || small ? [] : [`No tokens/s were estimated for ${hardware.gpu}.`]),
  ];
  const outcomes = Object.entries(sections).map(([name, { state, seconds, problem }]) => [
    name,
    state,
    seconds === undefined ? "" : `${seconds.toFixed(0)} s`,
    problem ?? "",
  ]);
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>hone on ${escaped(hardware.gpu)}</title><style>${STYLE}</style>
<h1>hone on ${escaped(hardware.gpu === "none" ? hardware.cpu : hardware.gpu)}</h1>
<p>${escaped(began)}, ${escaped(`${hardware.cpu}, ${hardware.cores} cores, ${hardware.memoryGB} GB, ${hardware.system}`)};
${escaped(
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(", "),
)}</p>
${warnings.map((one) => `<p class="note">${escaped(one)}</p>`).join("\n")}
<h2>Measured and expected</h2>
<p>An expectation is arithmetic: no card had run hone when it was made.</p>
${table(
  ["", "measured", "expected", "ratio", "expected from"],
  linesOf(first).map(({ what, measured, expected, ratio, from }) => [what, measured, expected, ratio, from]),
)}
<h2>Sections</h2>
${table(["section", "came to", "took", "problem"], outcomes)}
${remarks.length === 0 ? "" : `<h2>Remarks of hone's</h2>\n<ul>${remarks.map((one) => `<li>${escaped(one)}</li>`).join("\n")}</ul>`}
</html>
`;
}

/** The table in docs/scale.md: steps from a small model on one card to a large one on several machines. Arithmetic, not measured. */

import { LINEAR_LAYERS } from "../learn/index.js";
import { catalogue, shapeOf } from "../models/index.js";
import { gigabytes } from "./fit.js";
import { planStep } from "./step-plan.js";
import { secondsText } from "./step-text.js";

interface Row {
  readonly model: string;
  readonly cards: string;
  readonly groups: number;
  readonly groupSize: number;
  readonly context: number;
}

const row = (model: string, cards: string, groups: number, groupSize: number, context = 8192): Row => ({
  ...{ model, cards, groups, groupSize, context },
});

const ROWS: readonly Row[] = [
  row("qwen2.5-0.5b", "3060", 8, 8),
  row("qwen2.5-0.5b", "4090", 8, 8),
  row("qwen2.5-1.5b", "4090", 8, 8),
  row("qwen2.5-3b", "2x4090", 8, 8),
  row("qwen2.5-7b", "a100-80gb", 8, 8),
  row("qwen2.5-7b", "4xa100-80gb", 16, 16),
  row("qwen2.5-14b", "4xa100-80gb", 16, 16),
  row("qwen2.5-14b", "8xh100-80gb", 32, 16),
  row("qwen2.5-32b", "8xh100-80gb", 32, 16, 4096),
  row("qwen2.5-32b", "2x8xh100-80gb", 64, 16, 4096),
  row("qwen2.5-32b", "8x8xh100-80gb", 64, 16, 4096),
];

/** Lengths of a rollout that all rows have; those of the options' defaults. */
const LENGTHS = { promptTokens: 600, turns: 3, turnTokens: 100, resultTokens: 300, judgeSeconds: 0 };

const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

function cells({ model, cards, groups, groupSize, context }: Row): string[] {
  const entry = catalogue().get(model);
  if (!entry || "path" in entry) throw new Error(`${model} is not in the catalogue`);
  const { best } = planStep(shapeOf(entry, "bf16"), {
    ...{ cards, context, groupsPerStep: groups, groupSize },
    ...{ ...LENGTHS, engineMemory: 0.5, loraTargets: LINEAR_LAYERS },
  });
  const asked = [model, `\`${cards}\``, `${groups} × ${groupSize}, ${context}`];
  if (!best) return [...asked, "does not fit", "", "", "", ""];
  const sum = (start: string) =>
    secondsText(best.parts.filter(({ name }) => name.startsWith(start)).reduce((all, { seconds }) => all + seconds, 0));
  const places = best.places.filter(({ room }) => room !== null);
  const fullest = places.map(({ bytes, room }) => ({ bytes, share: bytes / (room as number) }));
  fullest.sort((a, b) => b.share - a.share);
  const memory = fullest[0] ? gigabytes(fullest[0].bytes) : "";
  return [...asked, best.name, sum("rollouts"), sum("update"), secondsText(best.seconds), memory];
}

export function scaleTable(): string {
  const head = [
    "model",
    "`--cards`",
    "rollouts, context",
    "who computes",
    "rollouts",
    "update",
    "a step",
    "fullest card",
  ];
  return `${[line(head), line(head.map(() => "---")), ...ROWS.map((one) => line(cells(one)))].join("\n")}\n`;
}

/** Writes README.md of an export: description, training results, settings, and how to load it. */
import { shareText } from "../../core/run/evaluation.js";
import type { Device, RunRecord, ValidationRow } from "../../core/run/records.js";
import type { RunSettings } from "../../core/run/settings.js";
import type { Base } from "./base.js";
import type { Form, WeightType } from "./form.js";

export interface CardFacts {
  readonly form: Form;
  readonly type: WeightType | null;
  readonly file: string | null;
  readonly base: Base;
  readonly run: string;
  readonly step: number;
  readonly record: RunRecord;
  readonly settings: RunSettings;
  readonly validations: readonly ValidationRow[];
  readonly devices: readonly Device[];
  readonly mismatch: number;
  readonly hone: string;
}

/** The task's name; a local path would tell readers nothing. */
const taskName = ({ record, settings }: CardFacts) => record.contents.task ?? settings.task;

function frontMatter({ form, base }: CardFacts): string {
  const library = { peft: "peft", "gguf-lora": "gguf", gguf: "gguf", safetensors: "transformers", ollama: "gguf" }[
    form
  ];
  const relation = form === "peft" || form === "gguf-lora" ? "adapter" : "finetune";
  return [
    "---",
    `library_name: ${library}`,
    ...(base.repository === null ? [] : [`base_model: ${base.repository}`, `base_model_relation: ${relation}`]),
    ...licenceLines(base),
    "pipeline_tag: text-generation",
    "tags:",
    ...["hone", "reinforcement-learning", "lora", "tool-use"].map((tag) => `- ${tag}`),
    "---",
  ].join("\n");
}

/** Licences of the catalogue that the Hub knows by these names; it refuses a card with another `license` than "other". */
const HUB_LICENCES = ["apache-2.0", "llama3.2"];

function licenceLines({ licence, repository }: Base): string[] {
  if (licence === null) return [];
  if (HUB_LICENCES.includes(licence)) return [`license: ${licence}`];
  const link = repository === null ? [] : [`license_link: https://huggingface.co/${repository}/blob/main/LICENSE`];
  return ["license: other", `license_name: ${licence}`, ...link];
}

const number = (value: number) => String(Number(value.toPrecision(3)));

function resultTable({ validations, step }: CardFacts): string {
  const before = validations.find((row) => row.step === 0);
  const after = validations.findLast(({ checkpoint }) => checkpoint === step);
  if (!after) return `This checkpoint (step ${step}) was not validated.`;
  const columns = [...(before && before !== after ? [{ title: "before", ...before.result }] : [])].concat([
    { title: `after ${step} steps`, ...after.result },
  ]);
  const row = (name: string, cell: (one: (typeof columns)[number]) => string) =>
    `| ${[name, ...columns.map(cell)].join(" | ")} |`;
  return [
    row("", ({ title }) => title),
    `|${" --- |".repeat(columns.length + 1)}`,
    row("success", (one) => shareText(one)),
    row("scenarios", ({ n }) => String(n)),
    row("mean reward", ({ reward }) => number(reward)),
    row("mean turns", ({ turns }) => number(turns)),
    row("mean tokens written", ({ completion_tokens: tokens }) => number(tokens)),
    "",
    "On test scenarios that no step was trained on, with 95 % intervals. A checkpoint that was chosen because it was the",
    "best of a run on them looks a little better than it is; `yarn eval --fresh` measures it on others.",
  ].join("\n");
}

/** Table of the settings that affect the result, by the names of their flags. */
function settingsTable(facts: CardFacts): string {
  const { settings, devices, mismatch, hone } = facts;
  const rows: [string, unknown][] = [
    ["task", taskName(facts)],
    ["reward", settings.reward],
    ["objective", settings.loss],
    ["scenarios × rollouts a step", `${settings.groupsPerStep} × ${settings.groupSize}`],
    ["learning rate", settings.learningRate],
    ["LoRA rank, alpha", `${settings.loraRank}, ${settings.loraAlpha}`],
    ["LoRA layers", settings.loraTargets.join(", ")],
    ["temperature", settings.temperature],
    ["context", settings.context],
    ["turns at most", settings.maxTurns],
    ["seed", settings.seed],
    ["engine and learner apart, at most (mean, nats)", number(mismatch)],
    ...devices.map(({ part, device }): [string, unknown] => [part, device ?? "cpu"]),
    ["hone", hone],
  ];
  return ["| | |", "| --- | --- |", ...rows.map(([name, value]) => `| ${name} | ${String(value)} |`)].join("\n");
}

function loading({ form, base, file, settings, type }: CardFacts): string {
  const name = base.repository ?? "PATH/OF/THE/BASE/MODEL";
  const code = (language: string, ...lines: string[]) => [`\`\`\`${language}`, ...lines, "```"].join("\n");
  const more = Object.entries(base.loading).map(([key, value]) => `, ${key}=${JSON.stringify(value)}`);
  const served = `--jinja -c ${settings.context}`;
  switch (form) {
    case "peft":
      return code(
        "python",
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM",
        "",
        `base = AutoModelForCausalLM.from_pretrained("${name}"${more.join("")})`,
        'model = PeftModel.from_pretrained(base, "PATH/OF/THIS/FOLDER")',
      );
    case "safetensors":
      return code(
        "python",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        'model = AutoModelForCausalLM.from_pretrained("PATH/OF/THIS/FOLDER", dtype="auto")',
        'tokenizer = AutoTokenizer.from_pretrained("PATH/OF/THIS/FOLDER")',
      );
    case "gguf-lora":
      return code("sh", `llama-server -m BASE.gguf --lora ${file} ${served}`);
    case "gguf":
      return `${code("sh", `llama-server -m ${file} ${served}`)}\n\nThe weights are ${type}, rounded once from the merged weights in f32.`;
    case "ollama":
      return `${code("sh", "ollama create NAME -f Modelfile", "ollama run NAME")}\n\n*Not run with Ollama* by hone. The weights are ${type}.`;
  }
}

export function cardText(facts: CardFacts): string {
  const { form, base, run, step } = facts;
  const adapter = form === "peft" || form === "gguf-lora";
  const what = adapter ? "A LoRA adapter for" : "A LoRA adapter merged into";
  return `${[
    frontMatter(facts),
    `# ${run}, step ${step}`,
    `${what} ${base.repository === null ? base.name : `[${base.repository}](https://huggingface.co/${base.repository})`}, trained by reinforcement learning with hone on the task “${taskName(facts)}”.`,
    `## Before and after\n\n${resultTable(facts)}`,
    `## Settings\n\n${settingsTable(facts)}`,
    `## Loading it\n\n${loading(facts)}`,
  ].join("\n\n")}\n`;
}

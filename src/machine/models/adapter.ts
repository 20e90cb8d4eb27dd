/**
 * LoRA adapters in PEFT's format (also written by ART, Unsloth and others): reads them, checks them against a model,
 * and converts them for hone's engine and learner.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { LINEAR_LAYERS, type LoraSettings } from "../../core/learn/types.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { sha256OfFile } from "../../core/util/files.js";
import { type ModelShape, modelFingerprint } from "../../engine/models.js";
import { targetsOf } from "../architectures.js";
import { adaptedLinears } from "../linears.js";
import type { ModelIo } from "./io.js";
import { converterPython, type FolderOptions, runModule, writtenOnce } from "./program.js";
import { readHead } from "./safetensors-head.js";

const CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";

const configSchema = z
  .object({
    peft_type: z.literal("LORA"),
    r: z.number().int().positive(),
    lora_alpha: z.number().positive(),
  })
  .loose();

export interface PeftAdapter {
  /** The folder of adapter_config.json and adapter_model.safetensors. */
  readonly folder: string;
  readonly lora: LoraSettings;
  /** Tensor shapes by PEFT's names. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  /** The field by which it leaves out layers of the model, if one is set. */
  readonly narrowed: string | undefined;
}

const TENSOR =
  /^base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|conv|mlp|feed_forward)\.(\w+)\.lora_([AB])\.weight$/;

/** Ways of PEFT to begin an adapter (`init_lora_weights`, beside true and false) that leave the base model as it was. */
const PLAIN_STARTS = ["gaussian", "eva", "orthogonal", "mica"];
/** Ways that take the first B A out of the base model's weights, which PEFT puts back when it converts the adapter. */
const CONVERTIBLE_STARTS = /^(pissa|corda|olora|lora_ga)/;
/** Fields that may be set: they tell where the adapter is from, how it was trained, or on which layers, as its tensors do. */
const PLAIN_FIELDS = new Set(
  "peft_type peft_version task_type auto_mapping base_model_name_or_path revision inference_mode r lora_alpha lora_dropout init_lora_weights target_modules exclude_modules layers_to_transform layers_pattern ensure_weight_tying runtime_config unsloth_fixed eva_config corda_config loftq_config lora_ga_config".split(
    " ",
  ),
);
/** Fields with a text or a number that mean more than a setting of another field. */
const MEANINGFUL_TEXTS = new Set(["bias", "invocation_string", "alora_invocation_string"]);

const MERGE =
  "merge it with PEFT's merge_and_unload into the base model that it was trained on, and give the result as the model";

/** Whether a field turns something on. Texts and numbers are settings of what another field turns on. */
function turnsOn(field: string, value: unknown, { r, lora_alpha }: { r: number; lora_alpha: number }): boolean {
  if (field === "bias" && value === "none") return false;
  if (typeof value === "object" && value !== null) {
    const usual = { rank_pattern: r, alpha_pattern: lora_alpha }[field];
    return Object.values(value).some((one) => usual === undefined || one !== usual);
  }
  return value === true || (MEANINGFUL_TEXTS.has(field) && Boolean(value));
}

/** Why the adapter is another change of the model than the product of its matrices, with what to do; undefined if it is none. */
function beyondProduct(config: z.output<typeof configSchema>): string | undefined {
  const { r, lora_alpha: alpha, init_lora_weights: given } = config;
  const start = typeof given === "string" ? given.toLowerCase() : given;
  if (![true, false, null, undefined, ...PLAIN_STARTS].includes(start as string)) {
    const began = `it began with init_lora_weights ${JSON.stringify(given)}, `;
    return typeof start === "string" && CONVERTIBLE_STARTS.test(start)
      ? `${began}which changed the base model too; save it as a plain LoRA with PEFT's save_pretrained(FOLDER, path_initial_model_for_weight_conversion=FIRST), where FIRST is the adapter as it was before training`
      : `${began}which may have changed the base model too; ${MERGE}`;
  }
  const extra = Object.keys(config).find(
    (field) => !PLAIN_FIELDS.has(field) && turnsOn(field, config[field], { r, lora_alpha: alpha }),
  );
  if (extra === undefined) return undefined;
  const uses = `it uses ${extra}, which hone's learner does not; `;
  // It is on from a text on, which weights cannot say.
  if (/^(alora_|invocation_)/.test(extra)) return `${uses}train a LoRA without it`;
  return uses + MERGE;
}

/** Whether a folder is an adapter in PEFT's format, and no checkpoint of hone's, which has one in a sub-folder. */
export const isPeft = (folder: string): boolean => existsSync(join(folder, CONFIG));

/**
 * @param flag the option's name, for messages
 * @throws UsageError when the folder holds no LoRA adapter of PEFT's, or one that the learner cannot continue from
 */
export function readPeft(given: string, flag: string): PeftAdapter {
  const place = resolve(given);
  // In a checkpoint of hone's the adapter is in a sub-folder.
  const folder = existsSync(join(place, "adapter", CONFIG)) ? join(place, "adapter") : place;
  for (const file of [CONFIG, WEIGHTS]) {
    if (existsSync(join(folder, file))) continue;
    const pickled = existsSync(join(folder, "adapter_model.bin")) ? "; adapter_model.bin is not read" : "";
    throw new UsageError(`${flag} ${given}: there is no ${file}; give the folder of a PEFT adapter${pickled}`);
  }
  let json: unknown;
  try {
    json = JSON.parse(readFileSync(join(folder, CONFIG), "utf8"));
  } catch (error) {
    throw new UsageError(`${flag} ${given}: ${CONFIG} is no JSON`, { cause: error });
  }
  const config = configSchema.safeParse(json);
  if (!config.success) throw new UsageError(`${flag} ${given}: ${CONFIG} describes no LoRA adapter of PEFT's`);
  const beyond = beyondProduct(config.data);
  if (beyond) throw new UsageError(`${flag} ${given}: ${beyond}`);
  const shapes = readHead(join(folder, WEIGHTS), `${WEIGHTS} of ${given}`);
  const targets = new Set<string>();
  for (const name of shapes.keys()) {
    const target = TENSOR.exec(name)?.[2];
    if (target === undefined || !targetsOf([target]).every((part) => LINEAR_LAYERS.includes(part))) {
      throw new UsageError(`${flag} ${given}: it holds ${name}; hone adapts the layers ${LINEAR_LAYERS.join(", ")}`);
    }
    targets.add(target);
  }
  const { r: rank, lora_alpha: alpha } = config.data;
  const parts = targetsOf(targets);
  const narrowed = ["layers_to_transform", "exclude_modules"].find((field) => config.data[field] != null);
  const lora = { rank, alpha, targets: LINEAR_LAYERS.filter((name) => parts.includes(name)) };
  return { folder, lora, shapes, narrowed };
}

/**
 * Checks that an adapter fits this model on every layer.
 * @throws HoneError in one line
 */
export function checkBelongs({ lora, shapes, narrowed }: PeftAdapter, model: ModelShape, flag: string): void {
  const expected = new Map<string, readonly number[]>();
  for (const { module, inputs, outputs, layers } of adaptedLinears(model, lora.targets)) {
    for (const layer of layers) {
      const name = `base_model.model.model.layers.${layer}.${module}`;
      expected.set(`${name}.lora_A.weight`, [lora.rank, inputs]);
      expected.set(`${name}.lora_B.weight`, [outputs, lora.rank]);
    }
  }
  const other = (why: string) => new HoneError(`${flag} belongs to another base model: ${why}`);
  for (const [name, shape] of expected) {
    const found = shapes.get(name);
    if (!found && narrowed !== undefined) {
      throw new HoneError(`${flag} has no ${name} (${narrowed}); hone adapts a target in every layer that has it`);
    }
    if (!found) throw other(`it has no ${name}`);
    if (found.join() !== shape.join()) throw other(`${name} is [${found}] there, [${shape}] here`);
  }
  const extra = [...shapes.keys()].find((name) => !expected.has(name));
  if (extra) throw other(`it has ${extra}, the model has ${model.layers} layers`);
}

/** @throws UsageError with the matching options, when the run's adapters would have another shape */
export function checkSettings({ lora }: PeftAdapter, settings: LoraSettings, flag: string): void {
  const key = ({ rank, alpha, targets }: LoraSettings) => JSON.stringify([rank, alpha, [...targets].sort()]);
  if (key(lora) === key(settings)) return;
  throw new UsageError(
    `${flag} has rank ${lora.rank}, alpha ${lora.alpha}, on ${lora.targets.join(",")}; give --lora-rank ${lora.rank} --lora-alpha ${lora.alpha} --lora-targets ${lora.targets.join(",")}`,
  );
}

/** Hash that identifies the adapter. */
export async function peftFingerprint({ folder }: PeftAdapter): Promise<string> {
  const hashes = [await sha256OfFile(join(folder, CONFIG)), await sha256OfFile(join(folder, WEIGHTS))];
  return createHash("sha256").update(hashes.join()).digest("hex");
}

/** Files that {@link adopted} writes to its folder, as in a checkpoint of the learner. */
export const ADOPTED_FILES = [`adapter/${WEIGHTS}`, `adapter/${CONFIG}`, "adapter.gguf"] as const;

/**
 * Returns a folder with the adapter as the engine and the learner load it; creates it if missing.
 * @throws HoneError when it cannot be created
 */
export async function adopted(
  adapter: PeftAdapter,
  model: string,
  options: FolderOptions,
  io: ModelIo,
): Promise<string> {
  const key = createHash("sha256")
    .update(`${await peftFingerprint(adapter)} ${modelFingerprint(model)}`)
    .digest("hex");
  const target = resolve(options.home, "adapters", key.slice(0, 12));
  return await writtenOnce(target, "reads an adapter", io, async (aside) => {
    mkdirSync(aside);
    const failure = `${basename(adapter.folder)} cannot be made an adapter of hone's`;
    const python = await converterPython(options, io);
    await runModule(python, ["learner.adopt", adapter.folder, model, aside], io, failure);
  });
}

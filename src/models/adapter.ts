/**
 * LoRA adapters in PEFT's format (also written by ART, Unsloth and others): reads them, checks them against a model,
 * and converts them for hone's engine and learner.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import type { Config } from "../config/index.js";
import { type ModelShape, modelFingerprint } from "../engine/index.js";
import { adaptedLinears, LINEAR_LAYERS, type LoraSettings, targetsOf } from "../learn/index.js";
import { ensurePython } from "../python-env/index.js";
import { HoneError, moveDurably, packageRoot, sha256OfFile, UsageError, withLock } from "../util/index.js";
import type { ModelIo } from "./io.js";
import { run } from "./program.js";
import { readHead } from "./safetensors-head.js";

const CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";

const configSchema = z
  .object({
    peft_type: z.literal("LORA"),
    r: z.number().int().positive(),
    lora_alpha: z.number().positive(),
    bias: z.string().nullish(),
  })
  .loose();

export interface PeftAdapter {
  /** The folder of adapter_config.json and adapter_model.safetensors. */
  readonly folder: string;
  readonly lora: LoraSettings;
  /** Tensor shapes by PEFT's names. */
  readonly shapes: ReadonlyMap<string, readonly number[]>;
}

const TENSOR =
  /^base_model\.model\.model\.layers\.(\d+)\.(?:self_attn|conv|mlp|feed_forward)\.(\w+)\.lora_([AB])\.weight$/;

/** Names a PEFT feature that changes the adapter's product beyond rank and alpha; the learner supports none of them. */
function extraOf(config: Readonly<Record<string, unknown>>): string | undefined {
  const isSet = (value: unknown) =>
    typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value);
  const extras = ["use_dora", "use_rslora", "alpha_pattern", "rank_pattern", "fan_in_fan_out", "modules_to_save"];
  return (
    extras.find((key) => isSet(config[key])) ??
    (["none", null, undefined].includes(config.bias as string) ? undefined : "bias")
  );
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
  const extra = extraOf(config.data);
  if (extra) throw new UsageError(`${flag} ${given}: it uses ${extra}, which hone's learner does not`);
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
  return { folder, lora: { rank, alpha, targets: LINEAR_LAYERS.filter((name) => parts.includes(name)) }, shapes };
}

/**
 * Checks that an adapter fits this model on every layer.
 * @throws HoneError in one line
 */
export function checkBelongs({ lora, shapes }: PeftAdapter, model: ModelShape, flag: string): void {
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
  { home, python, torchIndex }: Pick<Config, "home" | "python"> & Partial<Pick<Config, "torchIndex">>,
  io: ModelIo,
): Promise<string> {
  const key = createHash("sha256")
    .update(`${await peftFingerprint(adapter)} ${modelFingerprint(model)}`)
    .digest("hex");
  const target = resolve(home, "adapters", key.slice(0, 12));
  const isThere = () => existsSync(target) && statSync(target).isDirectory();
  if (isThere()) return target;
  const waiting = () => io.log("waiting for another process that reads an adapter");
  const adopt = async () => {
    if (isThere()) return;
    const aside = `${target}.${process.pid}.part`;
    rmSync(aside, { recursive: true, force: true });
    mkdirSync(aside, { recursive: true });
    try {
      const interpreter = await ensurePython({
        onProgress: io.log,
        anyBuild: true,
        torchIndex,
        python,
        signal: io.signal,
      });
      const args = ["-m", "learner.adopt", adapter.folder, model, aside];
      const outcome = await run(interpreter, args, io, undefined, { PYTHONPATH: join(packageRoot, "native") });
      if (outcome.code !== 0) {
        throw new HoneError(`${basename(adapter.folder)} cannot be made an adapter of hone's: ${outcome.said.at(-1)}`);
      }
      moveDurably(aside, target);
    } finally {
      rmSync(aside, { recursive: true, force: true });
    }
  };
  await withLock(resolve(home, "adapters", ".lock"), waiting, adopt, io.signal);
  return target;
}

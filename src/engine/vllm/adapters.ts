/**
 * Adapters as vLLM servers read them: folders in PEFT's format, each with a name and a path that were never used before,
 * since servers keep what they have read, and cached prefixes, by both.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";
import { safetensors, type Tensor } from "../../core/learn/safetensors.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { flush, moveDurably } from "../../core/util/files.js";
import { isAlive } from "../../core/util/processes.js";
import { Random } from "../../core/util/random.js";
import type { ModelShape } from "../models.js";

const CONFIG = "adapter_config.json";
const WEIGHTS = "adapter_model.safetensors";

/** alpha / rank of adapters that are tried. */
const TRIAL_SCALE = 16;
/** Size of what a trial of two opposed rows adds to a layer's output, in those of its input's numbers. */
const CHANGE = 1;

const float32 = (shape: readonly number[], data: Float32Array): Tensor => ({ dtype: "F32", shape, data });

const HOST = hostname().replace(/[^A-Za-z0-9]+/g, "") || "host";
const NAME = /^hone-([A-Za-z0-9]+)-(\d+)-[a-z0-9]+-\d+$/;

let prefixes = 0;

/**
 * Names of this process: unused on any server, also on one that served an earlier process of this number, and others than
 * those of an engine that was loaded in the same millisecond.
 */
export const newPrefix = () =>
  `hone-${HOST}-${process.pid}-${Date.now().toString(36)}${(prefixes++).toString(36).padStart(2, "0")}`;

export const nameIn = (prefix: string, version: number) => `${prefix}-${version}`;

/** Whether a name is of a process of this machine that is gone. */
export function isAbandoned(name: string): boolean {
  const [, host, pid] = NAME.exec(name) ?? [];
  return host === HOST && Number(pid) !== process.pid && !isAlive(Number(pid));
}

/**
 * The folder in PEFT's format beside an adapter file of hone's.
 * @throws HoneError when there is none
 */
function peftBeside(file: string): string {
  const folder = join(dirname(file), "adapter");
  if (existsSync(join(folder, WEIGHTS))) return folder;
  throw new HoneError(
    `vLLM loads adapters in PEFT's format, and ${basename(file)} has none beside it: give its folder`,
  );
}

/** The folder in which servers find adapters. */
export class AdapterFolder {
  readonly #folder: string;

  /** @throws HoneError when it cannot be written to */
  constructor(folder: string) {
    this.#folder = folder;
    try {
      mkdirSync(folder, { recursive: true });
    } catch (error) {
      throw new HoneError(`--engine-adapters ${folder}: ${messageOf(error)}`, { cause: error });
    }
  }

  pathOf(name: string): string {
    return join(this.#folder, name);
  }

  /** Copies the adapter of a file of hone's to the path of a name. */
  publish(file: string, name: string): void {
    const from = peftBeside(file);
    this.#write(name, (draft) => {
      for (const one of [CONFIG, WEIGHTS]) copyFileSync(join(from, one), join(draft, one));
    });
  }

  /** Writes an adapter on one layer alone, with arbitrary weights, which changes what the model says. */
  publishTrial(name: string, { embedding, feedForward }: ModelShape, rank: number): void {
    const random = new Random("vllm trial");
    const numbers = (rows: number, columns: number) => {
      const data = Float32Array.from({ length: rows * columns }, () => (random.float() - 0.5) / Math.sqrt(columns));
      return float32([rows, columns], data);
    };
    this.#publishOne(name, rank, numbers(rank, feedForward), numbers(embedding, rank));
  }

  /**
   * Writes an adapter on one layer alone, of rank 2: the second row of A is larger than the first by `step`, relatively, and the
   * second column of B is the first with the other sign. Numbers are powers of two, but for the second row. What it changes does not
   * depend on `step`, as long as that is kept.
   */
  publishOpposed(name: string, { embedding, feedForward }: ModelShape, step: number): void {
    const random = new Random("vllm opposed");
    const signs = (count: number) => Array.from({ length: count }, () => (random.float() < 0.5 ? 1 : -1));
    const row = signs(feedForward).map((sign) => sign * 2 ** -Math.round(Math.log2(feedForward) / 2));
    const a = float32([2, feedForward], Float32Array.from([...row, ...row.map((one) => one * (1 + step))]));
    const column = signs(embedding).map((sign) => sign * (CHANGE / (TRIAL_SCALE * step)));
    const b = float32([embedding, 2], Float32Array.from(column.flatMap((one) => [one, -one])));
    this.#publishOne(name, 2, a, b);
  }

  #publishOne(name: string, rank: number, a: Tensor, b: Tensor): void {
    const layer = "base_model.model.model.layers.0.mlp.down_proj";
    const config = {
      peft_type: "LORA",
      task_type: "CAUSAL_LM",
      r: rank,
      lora_alpha: TRIAL_SCALE * rank,
      target_modules: ["down_proj"],
      bias: "none",
      lora_dropout: 0,
      inference_mode: true,
      base_model_name_or_path: "",
    };
    this.#write(name, (draft) => {
      writeFileSync(join(draft, CONFIG), JSON.stringify(config));
      const tensors = { [`${layer}.lora_A.weight`]: a, [`${layer}.lora_B.weight`]: b };
      writeFileSync(join(draft, WEIGHTS), safetensors(tensors, {}));
    });
  }

  /** Whether an adapter of this name changes the model at all: a new one's B is zero. */
  changesAnything(name: string): boolean {
    return hasNonZeroB(join(this.pathOf(name), WEIGHTS));
  }

  remove(name: string): void {
    rmSync(this.pathOf(name), { recursive: true, force: true });
  }

  /** Names of folders of processes that are gone. */
  abandoned(): string[] {
    return readdirSync(this.#folder).filter(isAbandoned);
  }

  #write(name: string, fill: (draft: string) => void): void {
    const draft = join(this.#folder, `.${name}`);
    try {
      rmSync(draft, { recursive: true, force: true });
      mkdirSync(draft);
      fill(draft);
      for (const one of [CONFIG, WEIGHTS]) flush(join(draft, one));
      moveDurably(draft, this.pathOf(name));
    } catch (error) {
      rmSync(draft, { recursive: true, force: true });
      throw new HoneError(`the adapter cannot be written for vLLM: ${messageOf(error)}`, { cause: error });
    }
  }
}

/** Whether any byte of a tensor named lora_B is not zero, apart from sign bits of zeros that no optimizer writes. */
function hasNonZeroB(file: string): boolean {
  const bytes = readFileSync(file);
  const begin = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, begin)) as Record<string, { data_offsets: [number, number] }>;
  return Object.entries(header).some(([name, { data_offsets: [start, end] = [0, 0] }]) => {
    return name.includes("lora_B") && bytes.subarray(begin + start, begin + end).some((byte) => byte !== 0);
  });
}

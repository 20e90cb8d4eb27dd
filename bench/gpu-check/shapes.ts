/** Models with random weights for `yarn gpu-check`, created on this machine when first needed. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { output } from "../llama-tools.js";
import { ensureTestModels, modelPath } from "../models.js";

/** card: in the shape of 0.5b, without weights, for a card that does not compute. */
export type Shape = "tiny" | "card" | "0.5b" | "1.5b" | "7b-8";

export interface ShapedModel {
  readonly model: string;
  readonly adapter: string;
}

export async function shapedModel(shape: Shape, log: (line: string) => void): Promise<ShapedModel> {
  if (shape === "tiny") {
    await ensureTestModels(["tiny"], log);
    return { model: modelPath("qwen2-tiny-f16.gguf"), adapter: modelPath("qwen2-tiny-adapter-2.gguf") };
  }
  if (shape === "card") {
    await ensureTestModels(["card"], log);
    return { model: modelPath("card-0.5b-bf16.gguf"), adapter: modelPath("card-0.5b-adapter-r8.gguf") };
  }
  const named = (folder: string) => ({
    model: join(folder, `qwen2-${shape}-shape-f16.gguf`),
    adapter: join(folder, `qwen2-${shape}-shape-adapter-r16.gguf`),
  });
  if (shape === "0.5b") {
    await ensureTestModels(["0.5b"], log);
    return named(modelPath("."));
  }
  const folder = join(packageRoot, "build/gpu-check-models", shape);
  if (existsSync(folder)) return named(folder);
  log(`making a model of random weights in the shape ${shape}, once`);
  const aside = `${folder}.${process.pid}.part`;
  mkdirSync(aside, { recursive: true });
  try {
    const source = await output(process.execPath, [join(packageRoot, "scripts/llama-source.mjs")]);
    if (source.code !== 0) throw new HoneError(source.text.trim());
    const python = await ensurePython({ extras: ["dev"], onProgress: log, anyBuild: true });
    const script = join(packageRoot, "bench/gpu-check/shapes.py");
    const made = await output(python, [script, source.text.trim(), aside, shape]);
    if (made.code !== 0) throw new HoneError(`${script} failed: ${made.text.trim().split("\n").at(-1)}`);
    renameSync(aside, folder);
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
  return named(folder);
}

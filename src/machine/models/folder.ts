/** A model file's weights and tokenizer in Hugging Face's form, for programs that read no GGUF. */
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { Config } from "../../core/config/config.js";
import { HoneError } from "../../core/util/errors.js";
import { moveDurably } from "../../core/util/files.js";
import { withLock } from "../../core/util/lock.js";
import { packageRoot } from "../../core/util/paths.js";
import { modelFingerprint, modelShape } from "../../engine/models.js";
import { ensurePython } from "../python/python.js";
import type { ModelIo } from "./io.js";
import { run } from "./program.js";

/** The type in which a file's weights are written: without rounding them, where they are not of 8 bits or less. */
const typeFor = (weightType: string) => ({ F16: "f16", BF16: "bf16" })[weightType] ?? "f32";

/**
 * The folder of a model file, written where it is missing.
 * @throws HoneError when it cannot be written
 */
export async function modelFolder(
  file: string,
  { home, python, torchIndex }: Pick<Config, "home" | "python"> & Partial<Pick<Config, "torchIndex">>,
  io: ModelIo,
): Promise<string> {
  const target = resolve(home, "folders", modelFingerprint(file).slice(0, 12));
  if (existsSync(target)) return target;
  const type = typeFor((await modelShape(file)).weightType);
  const write = async () => {
    if (existsSync(target)) return;
    const aside = `${target}.${process.pid}.part`;
    rmSync(aside, { recursive: true, force: true });
    try {
      io.log(`writing ${basename(file)} in Hugging Face's form (${type})`);
      const interpreter = await ensurePython({
        onProgress: io.log,
        anyBuild: true,
        torchIndex,
        python,
        signal: io.signal,
      });
      const request = {
        form: "safetensors",
        type,
        model: resolve(file),
        adapter: null,
        source: null,
        files: [],
        into: aside,
      };
      const args = ["-m", "learner.export", JSON.stringify(request)];
      const outcome = await run(interpreter, args, io, undefined, { PYTHONPATH: resolve(packageRoot, "native") });
      if (outcome.code !== 0) {
        throw new HoneError(`${basename(file)} cannot be written in Hugging Face's form: ${outcome.said.at(-1)}`);
      }
      moveDurably(aside, target);
    } finally {
      rmSync(aside, { recursive: true, force: true });
    }
  };
  mkdirSync(resolve(home, "folders"), { recursive: true });
  const waiting = () => io.log("waiting for another process that writes a model in Hugging Face's form");
  await withLock(resolve(home, "folders", ".lock"), waiting, write, io.signal);
  return target;
}

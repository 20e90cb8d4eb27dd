/** A model file's weights and tokenizer in Hugging Face's form, for programs that read no GGUF. */
import { basename, resolve } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { modelFingerprint, modelShape } from "../../engine/models.js";
import type { ModelIo } from "./io.js";
import { converterPython, type FolderOptions, folderOnce, run } from "./program.js";

/** The type in which a file's weights are written: without rounding them, where they are not of 8 bits or less. */
const typeFor = (weightType: string) => ({ F16: "f16", BF16: "bf16" })[weightType] ?? "f32";

/**
 * The folder of a model file, written where it is missing.
 * @throws HoneError when it cannot be written
 */
export async function modelFolder(file: string, options: FolderOptions, io: ModelIo): Promise<string> {
  const target = resolve(options.home, "folders", modelFingerprint(file).slice(0, 12));
  return await folderOnce(target, "writes a model in Hugging Face's form", io, async (into) => {
    const type = typeFor((await modelShape(file)).weightType);
    io.log(`writing ${basename(file)} in Hugging Face's form (${type})`);
    const request = { form: "safetensors", type, model: resolve(file), adapter: null, source: null, files: [], into };
    const args = ["-m", "learner.export", JSON.stringify(request)];
    const outcome = await run(await converterPython(options, io), args, io);
    if (outcome.code === 0) return;
    throw new HoneError(`${basename(file)} cannot be written in Hugging Face's form: ${outcome.said.at(-1)}`);
  });
}

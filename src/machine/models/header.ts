/** Checks of a GGUF file's header before anything is loaded: whether the model can chat and be trained. */

import { KNOWN_TENSORS, READABLE_WEIGHTS } from "../../core/learn/types.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { type ModelHeader, modelHeader } from "../../engine/models.js";
import { ARCHITECTURES, architectureNamed } from "../architectures.js";

/**
 * Reads the header of a model for chat.
 * @throws HoneError when it has no vocabulary or no chat template
 */
export async function conversingModel(file: string): Promise<ModelHeader> {
  const header = await modelHeader(file);
  if (!header.hasVocabulary)
    throw new HoneError(`${file} has no vocabulary (tokenizer.ggml.tokens); take another file`);
  if (!header.hasChatTemplate) {
    throw new HoneError(`${file} has no chat template (tokenizer.chat_template); use the instruct form of the model`);
  }
  return header;
}

/** @throws UsageError for a longer context than the model was trained with */
export function checkContext(context: number | undefined, trained: number): void {
  if (context === undefined || context <= trained) return;
  throw new UsageError(`--context ${context}: the model was trained with ${trained} tokens; give at most that`);
}

const LAYER_TENSOR = new RegExp(`^blk\\.\\d+\\.(${KNOWN_TENSORS.layer.join("|")})\\.(weight|bias)$`);
const isKnown = (tensor: string) => KNOWN_TENSORS.model.includes(tensor) || LAYER_TENSOR.test(tensor);

/**
 * Checks in advance what native/learner/gguf_model.py would refuse after rollouts have been played.
 *
 * @param hfWeights whether the learner takes its weights from elsewhere
 * @throws UsageError in one line that gives the reason
 */
export function checkTrainable(header: ModelHeader, file: string, hfWeights: boolean): void {
  const { architecture, experts, headSize, ropeScaling, rotated, window, tensorNames, tensorTypes } = header;
  if (!ARCHITECTURES.includes(architecture)) {
    const known = ARCHITECTURES.join(", ");
    throw new UsageError(`${file} holds a model of architecture ${architecture}; the learner trains ${known}`);
  }
  const { stripping, windows, partlyRotated, convolves } = architectureNamed(architecture) ?? {};
  if (experts > 0) throw new UsageError(`${file} is a mixture of experts, which the learner does not train`);
  const unknown = tensorNames.find((name) => !isKnown(name));
  if (unknown !== undefined) throw new UsageError(`${file} has a tensor ${unknown}, which the learner does not know`);
  if (header.tokenizer === "llama" && stripping) {
    throw new UsageError(
      `${file} has a tokenizer that drops white space behind special tokens, which stays where hone writes a chat template; take a later model of its family`,
    );
  }
  if (window !== undefined && windows === undefined)
    throw new UsageError(`${file} attends through a sliding window, which the learner does not`);
  if (rotated !== headSize && !partlyRotated) {
    throw new UsageError(`${file} rotates ${rotated} of ${headSize} dimensions of a head; the learner rotates all`);
  }
  // The learner reads this header even with --hf-weights.
  const scaled = windows === undefined ? ["none", "linear", "yarn"] : ["none", "linear"];
  if (!(convolves ? ["none"] : scaled).includes(ropeScaling)) {
    throw new UsageError(`${file} scales RoPE by ${ropeScaling}, which the learner does not`);
  }
  if (hfWeights) return;
  const unreadable = tensorTypes.find((type) => !READABLE_WEIGHTS.includes(type));
  if (unreadable === undefined) return;
  throw new UsageError(
    `${file} has ${unreadable.toLowerCase()} weights, which the learner cannot read; give --hf-weights with the original weights, or take another file`,
  );
}

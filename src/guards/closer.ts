/** How a user brings engine and learner closer to each other: the one place that words it. */
import { hone } from "../core/util/program.js";

export interface Numerics {
  /** Type of the engine's weights, as llama.cpp names it. */
  readonly weightType: string;
  /** Whether the engine computes with CUDA, which sums products of bf16 in 32 bits, and of f16 not always. */
  readonly cuda: boolean;
  readonly hfWeights: boolean;
  /** As --model names it. */
  readonly model: string;
}

/** The weights in which they differ least; undefined where the engine has them. */
function closest({ weightType, cuda }: Numerics): "f16" | "bf16" | "f32" | undefined {
  const type = weightType.toUpperCase();
  if (type === "F32") return undefined;
  if (type === "BF16" || (type === "F16" && !cuda)) return "f32";
  return cuda ? "bf16" : "f16";
}

/** A sentence without its end: what to do about their distance. */
export function bringCloser(numerics: Numerics): string {
  if (numerics.hfWeights) return "Check that --hf-weights holds the weights of this very model, or leave it out";
  const weights = closest(numerics);
  const given = `--model ${/^[\w./:@+-]+$/.test(numerics.model) ? numerics.model : `'${numerics.model}'`}`;
  if (weights === undefined) return `Run \`${hone("doctor")}\`: with f32 weights rounding explains little of it`;
  return `Begin another run (--run NAME) with ${given} --weights ${weights}, which writes the model's ${numerics.weightType.toLowerCase()} weights as ${weights}, once`;
}

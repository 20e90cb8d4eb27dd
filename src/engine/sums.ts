/** Precision of CUDA's matrix products: its default for f16 is coarser than the learner can match. */
import type { Gpu } from "../core/engine/engine.js";

const VARIABLE = "GGML_CUDA_CUBLAS_COMPUTE_TYPE";

/**
 * Makes cuBLAS sum in 32 bits. For more than 16 rows, llama.cpp multiplies f16 weights (and dequantised ones) with
 * CUBLAS_COMPUTE_16F: ggml-cuda.cu, line 1397 of the pinned version. With "f32" in this variable, which it reads at each
 * product (line 1641), the weights are converted and CUBLAS_COMPUTE_32F is used, with inputs of at most 11 significant
 * bits (TF32), as many as f16 has. The conversion costs time and a copy of the largest matrix in 32 bits. bf16 weights
 * are summed in 32 bits anyway (line 1515), so they are unaffected. A value set by the user is kept. Not run on CUDA.
 *
 * Call it on the main thread, before the model is loaded: its warm-up computes.
 */
export function sumIn32Bits(gpu: Exclude<Gpu, "auto">, weightType: string, env: NodeJS.ProcessEnv = process.env): void {
  if (gpu === "cuda" && weightType !== "BF16") env[VARIABLE] ??= "f32";
}

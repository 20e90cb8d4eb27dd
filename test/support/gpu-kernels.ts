/**
 * Runs before the tests on llvmpipe: two processes run models with f16 and with f32 weights (as in adapters), so that
 * two cores compile the kernels that the tests need. With a filled build/shader-cache it takes seconds.
 */
import { cases, playCases } from "../engine/transformers.js";
import { few, gpu } from "./gpu.js";

export default async function compile(): Promise<void> {
  if (!gpu.software) return;
  const plain = cases.filter(({ family, adapter }) => family === "qwen3" && adapter === "none");
  await Promise.all(plain.filter(({ weights }) => weights !== "q8_0").map((one) => playCases([one], few)));
}

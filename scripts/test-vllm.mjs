// `yarn test:vllm`: the tests on the real vLLM (test/**/*.vllm.test.ts), which is installed first, on a CPU. Arguments are handed
// to vitest. part.mjs says how it ends.
import { Part } from "./part.mjs";

const part = new Part("vllm", "vLLM");
await part.prepare();
const { ensureVllm } = await import("../dist/src/machine/python/vllm.js");
const choice = { given: undefined, cuda: false, torchIndex: process.env.HONE_TORCH_INDEX, onProgress: console.error };
const { python } = await ensureVllm(choice).catch((error) => part.notRun(error.message));
await part.run({}, { VLLM_TEST_PYTHON: python });

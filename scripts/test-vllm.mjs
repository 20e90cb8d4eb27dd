// `yarn test:vllm`: the tests on the real vLLM (test/**/*.vllm.test.ts), which is installed first, on a CPU. `--full`
// adds a slower one. Other arguments are handed to vitest. part.mjs says how it ends.
import { Part } from "./part.mjs";
import { takeFlag } from "./test-ground.mjs";

const part = new Part("vllm", "vLLM");
const full = takeFlag(part.only, "--full");
await part.prepare();
const { ensureVllm } = await import("../dist/src/machine/python/vllm.js");
const choice = { given: undefined, cuda: false, torchIndex: process.env.HONE_TORCH_INDEX, onProgress: console.error };
const { python } = await ensureVllm(choice).catch((error) => part.notRun(error.message));
await part.run({}, { VLLM_TEST_PYTHON: python, TEST_FULL: full ? "1" : "" });

// Makes what tests need once for several commands of them, which then have `--prepared`: `.ci/run` does so. `card` makes the
// null card, `vllm` installs vLLM; both need what is made without them. Exit status 1, with one line that says why, where it cannot be had.
import { developmentPython, prepare } from "./test-ground.mjs";

const makers = {
  async all() {
    await prepare({ full: true, prepared: false });
  },
  async card() {
    const { buildNullCard } = await import("../test/null-card/build.mjs");
    const lack = await buildNullCard(await developmentPython(true));
    if (lack !== undefined) throw new Error(lack);
  },
  async vllm() {
    const { ensureVllm } = await import("../dist/src/machine/python/vllm.js");
    const torchIndex = process.env.HONE_TORCH_INDEX;
    await ensureVllm({ given: undefined, cuda: false, torchIndex, onProgress: console.error });
  },
};

try {
  await makers[process.argv[2] ?? "all"]();
} catch (error) {
  console.error(`hone: ${error.message}`);
  process.exitCode = 1;
}

/** What is seen of vLLM servers before anything is played on them, on stand-ins that are wrong in one thing each. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../../bench/models.js";
import { HoneError } from "../../../src/core/util/errors.js";
import { openOn as open, type StandIn, startStandIn } from "./support.js";

let right: StandIn;
beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  right = await startStandIn();
});
afterAll(() => right.kill());

describe("vLLM servers that are set up otherwise", () => {
  it.each([
    [{ logprobsMode: "raw_logprobs" }, "start it with --logprobs-mode processed_logprobs"],
    [{ maxLoras: 1 }, "start it with --max-loras 2"],
    [{ maxRank: 1 }, "takes adapters up to rank 1, and these have rank 4: start it with a larger --max-lora-rank"],
    [{ lora: false }, "start it with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"],
    [{ blind: true }, "does not see the adapters' folder"],
    [{ deaf: true }, "it answers with the base model when it is asked for an adapter"],
    [{ apart: true }, "it has more than one API server"],
    [{ maxLength: 1024 }, "start it with --max-model-len 1025"],
    [{ defaults: { temperature: 0.6, top_p: 0.8 } }, "start it with --generation-config vllm"],
  ])("%j is refused at the start, in one line", async (wrong, message) => {
    const server = await startStandIn(wrong);
    const error = await open([right, server]).then(
      () => new Error("it was not refused"),
      (error: Error) => error,
    );
    await server.kill();
    expect(error.message).toContain(`the vLLM server at ${server.url}: `);
    expect(error.message).toContain(message);
    expect(error.message).not.toContain("\n");
  });

  it.each([
    ["bfloat16", "BF16"],
    ["float16", "F16"],
  ])("the type in which adapters are kept is seen of one in %s", async (dtype, adapters) => {
    const server = await startStandIn({ dtype });
    const engine = await open([server]);
    expect(engine.info.compute.adapters).toBe(adapters);
    await engine.close();
    await expect(open([right, server])).rejects.toThrow(
      `the vLLM server at ${server.url}: it keeps adapters in ${adapters}, and others do in F32: start all of them with one --dtype`,
    );
    await server.kill();
  });

  it("one that fails at whatever it is asked at the start is named in one line", async () => {
    const server = await startStandIn({ failing: "/version" });
    const refused = expect(open([server])).rejects;
    await refused.toThrow(new HoneError(`no vLLM server answers at ${server.url}: 503: failing`));
    await server.kill();
  });

  it("a server of another model, and an address without a server, are refused too", async () => {
    const other = await startStandIn({ model: modelPath("qwen2-tiny-f16.gguf") });
    await expect(open([other])).rejects.toThrow(/its tokenizer is not that of|its model is not ours/);
    await other.kill();
    await expect(open([other])).rejects.toThrow(`no vLLM server answers at ${other.url}`);
  });
});

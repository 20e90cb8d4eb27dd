import { describe, expect, it } from "vitest";
import { modelFile } from "../../src/engine/models.js";
import { tokenBytes } from "../../src/engine/vocabulary.js";
import { close, testEngine } from "./support.js";

describe("the bytes of tokens from a model file's header", () => {
  it("are what the engine says of every token", async () => {
    const model = modelFile("tiny");
    const engine = await testEngine({ model, threads: 1, sequences: 1, contextPerSequence: 64 });
    const bytes = await tokenBytes(model);
    const { vocabularySize } = engine.info;
    const differ = [];
    for (let id = 0; id < vocabularySize; id++) {
      // Tokens that are no whole characters are compared as the engine shows them, with what stands for the rest.
      const text = Buffer.from(bytes(id) ?? "", "latin1").toString("utf8");
      if (text !== engine.detokenize([id], { special: true })) differ.push([id, text]);
    }
    expect(differ).toEqual([]);
    expect(bytes(vocabularySize)).toBeUndefined();
    // Other files of this worker load the same model in another way.
    await close(engine);
  });
});

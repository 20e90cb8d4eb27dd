/** Sections of `yarn gpu-check` that ask whether the card's numbers are right. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { Random } from "../../src/core/util/random.js";
import type { Check } from "../../src/hone/doctor/check.js";
import { buildLlamaTool } from "../llama-tools.js";
import { gpuOption, NotCountable, type Section } from "./context.js";
import { inFolder } from "./folder.js";
import { hone } from "./programs.js";
import { shapedModel } from "./shapes.js";

export const prepare: Section = {
  name: "prepare",
  about: "a model of random weights in the shape of qwen2.5-0.5b, and llama-batched-bench",
  async run({ small, log, save }) {
    const { model } = await shapedModel(small ? "tiny" : "0.5b", log);
    save({ model });
    save({ model, tool: await buildLlamaTool("llama-batched-bench", log) });
  },
};

export const doctor: Section = {
  name: "doctor",
  about: "what computes, and a small training step on the card",
  run: ({ gpu, standIn, save }) =>
    inFolder(async (folder) => {
      const { ok, checks } = await hone(folder, "doctor", "--gpu", gpuOption(gpu));
      save({ ok, checks });
      if (ok === true) return;
      const wrong = (checks as readonly Check[]).filter(({ state }) => state === "wrong").map(({ name }) => name);
      const line = `doctor found to be mended: ${wrong.join(", ")}`;
      // The new adapter does not change the engine's numbers as it does the learner's.
      throw standIn && wrong.join() === "adapter" ? new NotCountable(line) : new HoneError(line);
    }),
};

const DECODERS = ["llama", "own"] as const;

export const parity: Section = {
  name: "parity",
  about: "log-probabilities of the card, by both decoders, against those of the CPU; without and with an adapter",
  run: ({ gpu, small, standIn, log, save }) =>
    inFolder(async (folder) => {
      const { model, adapter } = await shapedModel(small ? "tiny" : "0.5b", log);
      const random = new Random("gpu-check");
      const ids = Array.from({ length: small ? 40 : 300 }, () => random.integer(0, 200));
      writeFileSync(join(folder, "ids.json"), JSON.stringify(ids));
      const score = async (on: string, more: readonly string[]) => {
        const args = ["logprobs", "--model", model, "--tokens", "ids.json", "--gpu", on, ...more];
        return (await hone(folder, ...args)).logprobs as number[];
      };
      const rows: object[] = [];
      for (const [name, more] of [["without", []] as const, ["with", ["--adapter", adapter]] as const]) {
        const cpu = await score("off", more);
        for (const decoder of DECODERS) {
          const card = await score(gpuOption(gpu), [...more, "--decoder", decoder]);
          const mismatches = card.map((value, i) => Math.abs(value - (cpu[i] as number)));
          const mean = mismatches.reduce((sum, mismatch) => sum + mismatch, 0) / mismatches.length;
          rows.push({ adapter: name, decoder, tokens: mismatches.length, mean, max: Math.max(...mismatches) });
          save({ rows });
        }
      }
      if (standIn) throw new NotCountable("it computes no log-probabilities");
    }),
};

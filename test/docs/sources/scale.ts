/** The arithmetic of docs/scale.md beside what an H200 took. */
import { cardOf } from "../../../bench/gpu-check/estimates.js";
import { LINEAR_LAYERS } from "../../../src/core/learn/types.js";
import { catalogue, shapeOf } from "../../../src/machine/models/catalogue.js";
import { linearParameters } from "../../../src/machine/plan/engine-memory.js";
import { adapterParameters } from "../../../src/machine/plan/input.js";
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

const h200 = resultsOf("cuda-2026-11-26-nvidia-h200.json");
/** NVIDIA's datasheet of the H200, SXM. */
const BANDWIDTH = 4.8e12;
const peak = cardOf(h200.hardware.gpu)?.peak as number;

const entry = catalogue().get("qwen2.5-0.5b");
if (!entry || "path" in entry) throw new Error("qwen2.5-0.5b is not in the catalogue");
const shape = shapeOf(entry, "bf16");
const linear = linearParameters(shape);
const adapter = adapterParameters(shape, 8, LINEAR_LAYERS);
const output = shape.vocabulary * shape.embedding;
const heads = shape.heads * shape.headSize * shape.layers;
const cell = 4 * shape.kvHeads * shape.headSize * shape.layers;

/** Seconds of a pass of so many rows. */
const passOf = (rows: number, attended: number) =>
  Math.max(
    (shape.bytes + 4 * adapter + rows * attended * cell) / BANDWIDTH,
    (rows * (2 * (linear + output + adapter) + 4 * attended * heads)) / peak,
  );
/** Seconds of an update. */
const updateOf = (positions: number, sampled: number, attended: number) =>
  (positions * (4 * linear + 6 * adapter + 12 * attended * heads) + sampled * 6 * output) / peak;

const SEQUENCES = 64;
const decode = h200.engine.rows.find(
  (row: { traffic: string; sequences: number }) => row.traffic === "decode" && row.sequences === SEQUENCES,
);
/** Of `bench/card/traffic.ts`, before the tokens that a sequence samples. */
const PROMPT = 200;
const attended = PROMPT + decode.tokens / SEQUENCES / 2;

const [, tokens = 0, sampled = 0] = (/([\d,]+) tokens, ([\d,]+) sampled/.exec(h200.updates.what) ?? []).map((text) =>
  Number(text.replace(",", "")),
);
const { computed, seconds, later } = h200.updates.hone;
const [, ...steps] = h200.steps.steps;
const ROLLOUTS = 32;
/** The most positions: prompts of a group are computed once. */
const step = steps.at(-1);

const milliseconds = (value: number) => (value < 0.001 ? (1e3 * value).toFixed(2) : (1e3 * value).toFixed(0));
const range = (values: readonly number[], digits: number) =>
  `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`;
const count = (value: number) => value.toLocaleString("en-US");

export const scale: Source = {
  page: "docs/scale.md",
  tables: [
    {
      header: "on an H200",
      rows: [
        [
          `a pass that decodes ${SEQUENCES} sequences with an adapter`,
          `${milliseconds(passOf(SEQUENCES, attended))} ms`,
          `${((1e3 * SEQUENCES) / decode.withAdapter[1]).toFixed(1)} ms`,
        ],
        [
          `an update of 64 rollouts: ${count(computed)} positions, ${count(sampled)} sampled tokens`,
          `${milliseconds(updateOf(computed, sampled, tokens / 64 / 2))} ms`,
          `${range([seconds, ...later], 2)} s, of which the card worked ${(h200.updates.profile.cardMilliseconds / 1e3).toFixed(2)}`,
        ],
        [
          `the update of a training step: ${ROLLOUTS} rollouts, ${count(step.tokens)} tokens, ${count(step.sampled)} sampled`,
          `at most ${milliseconds(updateOf(step.tokens, step.sampled, step.tokens / ROLLOUTS / 2))} ms`,
          `${range(
            steps.map((one: typeof step) => one.seconds.update),
            1,
          )} s`,
        ],
      ],
    },
  ],
  measured: [],
  declared: [["At most 256 rollouts are played at once", "src/machine/play/player-options.ts", "MOST_SEQUENCES = 256"]],
  elsewhere: [],
  plain: ["Williams, Waterman and Patterson 2009", "Patarasuk and Yuan 2009"],
};

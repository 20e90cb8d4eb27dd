/** Tables of results in docs: each figure is that of a file in bench/results. */
import { describe, expect, it } from "vitest";
import type { Row } from "../../bench/card/case.js";
import { median } from "../../bench/measure.js";
import { textOf } from "./blocks.js";
import { atEnd, atStart, type Outcome, outcomesOf, percent, resultsOf, rowsOf, type Share } from "./figures.js";
import { saidInResults } from "./sources/trainings.js";

const QWEN = "qwen2.5-email-2026-11-28-amd-epyc-2-cores.json";

/** A table of the email task in docs/results.md, by the first cell of its header, whose columns are these evaluations. */
function expectEmailTable(header: string, evaluated: readonly Share[]) {
  const mean = (name: string) => evaluated.map(({ parts }) => `${percent(parts[name]?.mean ?? Number.NaN, 1)} %`);
  const failed = evaluated.map(({ n, tool_errors: causes }) => {
    const calls = Object.values(causes).reduce((sum, count) => sum + count, 0);
    return calls === 0 ? "–" : `${Math.round((100 * calls) / n)}`;
  });
  expect(rowsOf("docs/results.md", header)).toEqual([
    ["solved", ...evaluated.map((one) => atEnd([one], 0))],
    ["mean reward", ...evaluated.map(({ reward }) => reward.toFixed(3))],
    ["found the right mail", ...mean("found")],
    ["opened it", ...mean("read")],
    ["calls that did not run, in 100 rollouts", ...failed],
  ]);
}

it("says of 24 steps on synthetic mail what was measured", () => {
  const { steps, validations, evaluations, pair } = resultsOf(
    "qwen2.5-email-24-steps-2026-11-30-amd-epyc-2-cores.json",
  ) as {
    steps: unknown[];
    validations: Record<"step" | "n" | "success", number>[];
    evaluations: Share[];
    pair: { success: Record<"difference" | "low" | "high" | "p", number> };
  };
  const { difference, low, high, p } = pair.success;
  const [points, least, most] = [difference, low, high].map((one) => percent(one, 1));
  const [before, after] = evaluations.map(({ success }) => percent(success, 1));
  expect(p).toBeLessThan(0.001);
  const text = textOf("docs/results.md").replaceAll("\n", " ");
  expect(text).toContain(
    `A further run of ${steps.length} steps took ${evaluations[0]?.n} questions from ${before} to ${after} % (${points} points, ${least} to ${most}, p < 0.001)`,
  );
  const [first, second, third, last] = validations.map(({ success }) => percent(success, 0));
  expect(validations.map(({ step }) => step)).toEqual([0, 8, 16, 24]);
  expect(text).toContain(
    `its ${validations[0]?.n} of validation from ${first} over ${second} and ${third} to ${last} % at steps 0, 8, 16 and 24`,
  );
});

it("says of real mail what was measured", () => {
  interface Evaluated {
    readonly mails: number;
    readonly questions: number;
    readonly evaluations: Share[];
    readonly imitation: { readonly rollouts: number };
  }
  const { mails, questions, evaluations, imitation } = resultsOf(
    "real-mail-2026-11-29-amd-epyc-2-cores.json",
  ) as Evaluated;
  const { steps, pair, ...later } = resultsOf("real-mail-steps-2026-11-29-amd-epyc-2-cores.json") as Evaluated & {
    steps: unknown[];
    pair: { reward: Record<"difference" | "low" | "high", number> };
  };
  const control = resultsOf("real-mail-control-2026-11-30-amd-epyc-2-cores.json") as Evaluated & {
    steps: unknown[];
    against: { reward: Record<"difference" | "low" | "high", number> };
  };
  const n = (evaluations[0] as Share).n;
  expectEmailTable(`${n} questions of real mail, sampled`, [...evaluations, ...later.evaluations]);
  const text = textOf("docs/results.md").replaceAll("\n", " ");
  expect(text).toContain(`on ${n} of ${questions} questions about ${mails.toLocaleString("en-US")} mails`);
  expect(text).toContain(`${imitation.rollouts} of the expert's rollouts on other questions were imitated`);
  expect(text).toContain(`after ${steps.length} steps more of 3 of 85`);
  const [added, low, high] = [pair.reward.difference, pair.reward.low, pair.reward.high].map((one) => one.toFixed(3));
  expect(text).toContain(`the ${steps.length} steps add ${added} to the mean reward (95 % interval ${low} to ${high})`);
  const { reward, parts } = control.evaluations.at(-1) as Share;
  const { difference, low: least, high: most } = control.against.reward;
  expect(text).toContain(
    `${control.steps.length} steps with random rewards found ${percent(parts.found?.mean as number, 1)} %, opened ${percent(parts.read?.mean as number, 1)} % and earned ${reward.toFixed(3)}: ${difference.toFixed(3)} less (${least.toFixed(3)} to ${most.toFixed(3)})`,
  );
});

it("says of small judges what was measured", () => {
  interface Quality
    extends Record<"accuracy" | "order" | "flat", { share: number; low: number; high: number; n: number }> {}
  const { rollouts, judges } = resultsOf("judges-2026-11-28-amd-epyc-2-cores.json") as {
    rollouts: { n: number };
    judges: { model: string; groups: number; quality: Quality }[];
  };
  const cell = ({ share, low, high }: Quality["order"]) =>
    `${percent(share, 0)} % (${percent(low, 0)} to ${percent(high, 0)})`;
  expect(rowsOf("docs/results.md", "judge, Q4_K_M")).toEqual(
    judges.map(({ model, quality: { order, flat, accuracy } }) => [
      model.replace("-Coder-", "-Coder ").replace("-Instruct, Q4_K_M", ""),
      cell(order),
      `${Math.round(flat.n * (1 - flat.share))} of ${flat.n}`,
      cell(accuracy),
    ]),
  );
  const groups = judges.map((judge) => judge.groups);
  const text = textOf("docs/results.md").replaceAll("\n", " ");
  expect(text).toContain(`${rollouts.n} rollouts of two of these steps, in ${groups[0]} groups`);

  const { steps, evaluations, pair } = resultsOf("art-notebook-2026-11-30-amd-epyc-2-cores.json") as {
    steps: { groups: number; trainable: number; seconds: { rewards: number; total: number } }[];
    evaluations: Share[];
    pair: { success: Record<"difference" | "low" | "high", number> };
  };
  const sum = (of: (step: (typeof steps)[number]) => number) => steps.reduce((all, step) => all + of(step), 0);
  const [before, after] = evaluations.map(({ success }) => percent(success, 1));
  const [points, low, high] = [pair.success.difference, pair.success.low, pair.success.high].map((one) =>
    percent(one, 1),
  );
  const seconds = sum((step) => step.seconds.total);
  expect(text).toContain(
    `of ${evaluations[0]?.n} questions ${before} % were solved before and ${after} % after its ${steps.length} steps (difference ${points} points, 95 % interval ${low} to ${high})`,
  );
  expect(text).toContain(`${sum((step) => step.trainable)} of ${sum((step) => step.groups)} groups got unequal scores`);
  expect(text).toContain(
    `Judging took ${percent(sum((step) => step.seconds.rewards) / seconds, 0)} % of ${Math.round(seconds / 60)} minutes`,
  );
});

describe("what is said of hone's own graph", () => {
  const { rows } = resultsOf("card-counts-engine-nvidia-h100-80gb-hbm3.json") as { rows: Row[] };
  const own = rows.filter(({ decoder }) => decoder === "own");
  const valuesOf = (counted: readonly Row[], name: string) =>
    counted.flatMap(({ figures }) => figures[name]?.value ?? []);
  const range = (values: readonly number[]) =>
    [...new Set([Math.min(...values), Math.max(...values)].map((value) => value.toFixed(2)))].join(" to ");

  it("was counted", () => {
    const cells = (decoder: Row["decoder"]) => {
      const of = (traffic: Row["traffic"]) => {
        const found = rows.find(
          (row) =>
            ["0.5b", "bf16", traffic, 64, decoder, undefined].join() ===
            [row.shape, row.type, row.traffic, row.sequences, row.decoder, row.pooledKv].join(),
        );
        return (name: string) => found?.figures[name]?.value ?? Number.NaN;
      };
      const [decode, agents] = [of("decode"), of("agents")];
      const kernels = [decode("kernelsPerPassWithoutAdapter"), decode("kernelsPerPass")];
      return [
        kernels.map((count) => count.toLocaleString("en-US")).join(", "),
        percent(agents("replayedOfAllPasses"), 0),
        [agents("synchronisationsPerPass"), agents("copiesPerPass")].map((count) => count.toFixed(1)).join(", "),
        agents("passesOverIdeal").toFixed(2),
      ];
    };
    const [llama, hone] = [cells("llama"), cells("own")];
    expect(rowsOf("docs/engine.md", "0.5B in bf16, 64 sequences").map(([, ...row]) => row.slice(0, 2))).toEqual(
      llama.map((cell, index) => [cell, hone[index]]),
    );
    const text = textOf("docs/engine.md").replaceAll("\n", " ");
    const kernels = (some: (row: Row) => boolean) =>
      `they are ${range(valuesOf(own.filter(some), "kernelsWithAdapterByThoseWithout"))} times as many`;
    expect(text).toContain(kernels(({ sequences }) => sequences >= 64));
    expect(text).toContain(kernels(({ sequences }) => sequences === 8));
    expect(text).toContain(kernels(({ sequences }) => sequences === 1));
    const agents = own.filter(({ traffic }) => traffic === "agents");
    expect(text).toContain(`takes ${range(valuesOf(agents, "passesOverIdeal"))} passes for each ideal one`);
  });

  it.each(["replayedOfAllPasses", "synchronisationsPerPass", "copiesPerPass", "passesOverIdeal"])(
    "reaches its goal: %s",
    (name) => {
      expect(own.filter(({ figures }) => figures[name]?.reached === false)).toEqual([]);
    },
  );
});

describe("what is said of pretrained models", () => {
  const text = outcomesOf("smollm2-2026-11-24-amd-epyc-2-cores.json");
  const [email, control] = outcomesOf("smollm2-email-2026-11-25-amd-epyc-2-cores.json") as [Outcome, Outcome];
  const of = (kind: string) => text.filter(({ name }) => name.startsWith(kind)).map(({ heldOut }) => heldOut);

  it("in README's table was measured", () => {
    const runs = (kind: string) => [
      of(kind).map(atStart).join(", "),
      of(kind)
        .map((one) => atEnd(one, 0))
        .join(", "),
    ];
    const [untrained, taught] = email.heldOut as [Share, Share];
    const figures = rowsOf("README.md", "held-out questions").map(([, ...cells]) => cells);
    const played = outcomesOf(QWEN).map(({ heldOut }) => heldOut);
    const [qwen, random] = [played.slice(0, -1), played.at(-1) as Share[]];
    const imitated = qwen.map(([, taught]) => atStart([taught as Share])).join(", ");
    const steps = qwen.map((one) => atEnd(one, 0)).join(", ");
    const after = `${atEnd(email.heldOut, 0)}; with random rewards ${atEnd(control.heldOut, 0)}`;
    expect(figures).toEqual([
      [imitated, `${steps}; with random rewards ${atEnd(random, 0)}`],
      runs("seed"),
      runs("coins"),
      [atEnd([untrained, taught], 0), after],
    ]);
  });

  it("in docs/results.md was measured", () => {
    const kinds = rowsOf("docs/results.md", "run");
    expect(kinds.map(([, ...cells]) => cells)).toEqual(
      text.map(({ heldOut, validations, mismatch: { mean, p99 } }) => [
        atStart(heldOut),
        atEnd(heldOut, 0),
        `${validations.map(({ success }) => percent(success, 0)).join(", ")} %`,
        `${mean.toFixed(4)}, ${p99.toFixed(3)}`,
      ]),
    );
    expectEmailTable("200 held-out questions, sampled", [...email.heldOut, control.heldOut.at(-1) as Share]);
  });
});

it("what docs/results.md says of Qwen2.5 0.5B was measured", () => {
  const [first, ...others] = outcomesOf(QWEN) as [Outcome, ...Outcome[]];
  const ends = others.map(({ heldOut }) => heldOut.at(-1) as Share);
  expectEmailTable("100 held-out questions, sampled", [...first.heldOut, ...ends]);
});

/** Runs of three seeds of SmolLM2: successes at the end in percent, their mean, the mean of the distances, the least effective sample size. */
function threeSeeds(file: string) {
  const runs = outcomesOf(file).filter(({ name }) => name.startsWith("seed"));
  const ends = runs.map(({ heldOut }) => 100 * (heldOut.at(-1) as Share).success);
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
  const middle = mean(ends);
  // Student's 97.5 % quantile for two degrees of freedom.
  const half = 4.3027 * Math.sqrt(mean(ends.map((one) => (one - middle) ** 2)) / 2);
  const ess = runs.flatMap(({ leastEss }) => leastEss ?? []);
  const apart = [mean(runs.map(({ mismatch }) => mismatch.mean)), mean(runs.map(({ mismatch }) => mismatch.p99))];
  return {
    after: `${ends.map((one) => one.toFixed(1)).join(", ")} %`,
    mean: `${middle.toFixed(1)} %`,
    interval: [middle - half, middle + half] as const,
    middle,
    apart: apart.map((one) => Number(one.toPrecision(2))).join(", "),
    leastEss: ess.length === 0 ? "–" : Math.min(...ess).toFixed(3),
  };
}

describe("three seeds of SmolLM2 in docs/results.md", () => {
  const inProcess = threeSeeds("smollm2-2026-11-24-amd-epyc-2-cores.json");

  it("by the type of the weights are as they were measured", () => {
    const rows = [
      inProcess,
      ...["q8_0", "q4_1", "q4_k_m"].map((type) => threeSeeds(`smollm2-${type}-2026-11-25-amd-epyc-2-cores.json`)),
    ];
    expect(rowsOf("docs/results.md", "weights").map(([, ...cells]) => cells)).toEqual(
      rows.map(({ after, mean, apart, leastEss }) => [after, mean, apart, leastEss]),
    );
  });

  it("on vLLM are as they were measured, their mean in the interval of llama.cpp's", () => {
    const onVllm = threeSeeds("smollm2-vllm-2026-11-25-amd-epyc-2-cores.json");
    expect(rowsOf("docs/results.md", "played by").map(([, ...cells]) => cells)).toEqual(
      [inProcess, onVllm].map(({ after, mean, interval, apart }) => [
        after,
        mean,
        `${interval.map((one) => one.toFixed(1)).join(" to ")} %`,
        apart,
      ]),
    );
    const [low, high] = inProcess.interval;
    expect(onVllm.middle).toBeGreaterThan(low);
    expect(onVllm.middle).toBeLessThan(high);
  });
});

interface NotebookSide {
  readonly peak: number;
  readonly stepSeconds: readonly number[];
  readonly tokens: readonly number[];
  readonly success: readonly number[];
}

describe("docs/speed.md", () => {
  it("has the notebook by hone and by TRL as it was measured", () => {
    const { hone, trl }: Record<"hone" | "trl", NotebookSide> = resultsOf("notebook-2026-11-25-amd-epyc-2-cores.json");
    const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
    const middle = ({ stepSeconds }: NotebookSide) => median(stepSeconds);
    const first = trl.success.length;
    const rows = rowsOf("docs/speed.md", "the notebook").map(([, ...cells]) => cells);
    const whole = (value: number) => Math.round(value).toLocaleString("en-US");
    expect(rows).toEqual([
      ["20", `the first ${first} of them`],
      [middle(hone).toFixed(1), middle(trl).toFixed(1)],
      [whole(mean(hone.tokens)), whole(mean(trl.tokens))],
      [`${(hone.peak / 1e9).toFixed(2)} GB`, expect.stringContaining(`${(trl.peak / 1e9).toFixed(2)} GB,`)],
      [`${percent(mean(hone.success.slice(0, first)), 1)} %`, `${percent(mean(trl.success), 1)} %`],
    ]);
    expect(textOf("docs/speed.md")).toContain(
      `TRL takes ${(middle(trl) / middle(hone)).toFixed(1)} times as long for a step.`,
    );
  });
});

describe("beside the tables", () => {
  const proseOf = (page: string) => textOf(page).replaceAll(/\s+/g, " ");

  it.each(saidInResults)("docs/results.md says as it was measured: %s", (said) => {
    expect(proseOf("docs/results.md")).toContain(said);
  });
});

/** `yarn hone plan`: a step by arithmetic. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { LINEAR_LAYERS } from "../../src/learn/index.js";
import { catalogue, shapeOf } from "../../src/models/index.js";
import { ASSUMED, readAssumptions } from "../../src/plan/assumptions.js";
import { defaultRun, fitOf, fitText, roomOfCard } from "../../src/plan/by-default.js";
import { type Device, readCluster } from "../../src/plan/cluster.js";
import { withFreeChanges } from "../../src/plan/fit.js";
import type { Layout } from "../../src/plan/layouts.js";
import { fullest, planMemory, sumOf } from "../../src/plan/memory.js";
import { withWideRows } from "../../src/plan/rows.js";
import { scaleTable } from "../../src/plan/scale-table.js";
import { soldCards } from "../../src/plan/sold.js";
import { type PlanOptions, planStep } from "../../src/plan/step-plan.js";
import { stepPlanJson, stepPlanText } from "../../src/plan/step-text.js";
import { partsOf, type Step } from "../../src/plan/step-time.js";
import { stepTokens } from "../../src/plan/workload.js";
import { packageRoot } from "../../src/util/paths.js";
import { resultsOf, rowsOf } from "../docs/figures.js";
import { checkLine } from "../docs/parse.js";

const shape = (name: string) => {
  const entry = catalogue().get(name);
  if (!entry || "path" in entry) throw new Error(`no entry ${name}`);
  return shapeOf(entry, "bf16");
};

const plan = (model: string, cards: string, more: Partial<PlanOptions> = {}) =>
  planStep(shape(model), {
    ...{ cards, loraTargets: LINEAR_LAYERS, engineMemory: 0.5 },
    ...{ promptTokens: 600, turns: 3, turnTokens: 100, resultTokens: 300, judgeSeconds: 0 },
    ...more,
  });
const partOf = (layout: Layout | undefined, name: string) =>
  layout?.parts.find((one) => one.name.startsWith(name))?.seconds as number;
const all = ({ best, others }: ReturnType<typeof plan>) => (best ? [best, ...others] : []);

describe("--cards", () => {
  it.each([
    ["4090", 1, 1, "RTX 4090"],
    ["4xA100-80GB", 1, 4, "A100 80GB"],
    ["8x4xh100-80gb", 8, 4, "H100 80GB"],
  ])("%s is %i machines with %i cards", (text, machines, cards, title) => {
    const cluster = readCluster(text, ASSUMED);
    expect([cluster.machines, cluster.cards, cluster.device.title]).toEqual([machines, cards, title]);
  });

  it.each([
    ["4091", "no card is called 4091; did you mean 4090?"],
    ["0x4090", "at least 1"],
    ["2x2x2x4090", "is not accepted"],
    ["2 4090", "is not accepted"],
    ["cpu", "--assume cpu-bandwidth="],
    ["2xcpu", "on one CPU"],
  ])("%s is refused", (text, why) => {
    expect(() => readCluster(text, ASSUMED)).toThrow(why);
  });

  it("knows cards with a source each", () => {
    for (const { name, source, bandwidth, bf16, f32 } of soldCards) {
      expect([name, source.length > 5, bandwidth > 1e11, bf16 > f32]).toEqual([name, true, true, true]);
    }
  });
});

describe("--assume", () => {
  it("changes what is named", () => {
    expect(readAssumptions({ updates: 0.5 })).toEqual({ ...ASSUMED, updates: 0.5 });
  });

  it.each([
    [{ updats: 0.5 }, "did you mean updates?"],
    [{ updates: 1.5 }, "a number up to 1"],
    [{ updates: 0 }, "above 0"],
    [{ start: "soon" }, "is not accepted"],
  ])("%j is refused", (given, why) => {
    expect(() => readAssumptions(given)).toThrow(why);
  });
});

describe("a step's tokens", () => {
  it("count a group's prompt once, and a rollout's turns and results", () => {
    const work = { groups: 2, groupSize: 4, prompt: 100, turns: 3, turnTokens: 10, resultTokens: 50, judgeSeconds: 0 };
    expect(stepTokens(work)).toEqual({
      rollouts: 8,
      length: 230,
      own: 130,
      sampled: 240,
      read: 2 * 100 + 8 * 100,
      positions: 2 * 100 + 8 * 130,
      attended: 165,
    });
  });

  it("must fit the context", () => {
    expect(() => plan("qwen2.5-0.5b", "4090", { context: 1024 })).toThrow("longer (1500)");
  });
});

describe("memory", () => {
  it.each([
    ["qwen2.5-0.5b", "4090", 24],
    ["qwen2.5-3b", "4090", 24],
    ["qwen2.5-7b", "a100-80gb", 80],
    ["qwen2.5-14b", "h100-80gb", 80],
  ])("of %s on a %s is that of the run's own plan", (model, card, gibibytes) => {
    const { best } = plan(model, card, { engine: "llama.cpp" });
    const room = roomOfCard(gibibytes);
    const free = { concurrency: true, gradientCheckpointing: true };
    const input = withWideRows(withFreeChanges(defaultRun(shape(model), "cuda", 1), free, room), room);
    const { gpu, host } = planMemory(input);
    expect(best?.places.map(({ rows }) => rows)).toEqual([gpu && fullest(gpu), fullest(host)]);
    expect(best?.places[0]?.bytes).toBeLessThanOrEqual(room.gpu);
  });

  it.each(["qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b"])(
    "that %s lacks on a card is said as by the run's plan",
    (model) => {
      const { best, misfits } = plan(model, "3060");
      const fit = fitOf(defaultRun(shape(model), "cuda", 1), roomOfCard(12));
      expect(best).toBeUndefined();
      expect(misfits[0]?.flags?.join(" ") ?? "no").toBe(fitText(fit));
    },
  );

  it("of the learner's own card has no engine", () => {
    const apart = all(plan("qwen2.5-7b", "2xa100-80gb")).find(({ flags }) => flags[0]?.includes("--engine vllm"));
    const [learner, server] = apart?.places ?? [];
    expect(learner?.rows.every(({ name }) => name.startsWith("learner"))).toBe(true);
    expect(server?.rows.find(({ name }) => name === "vLLM: weights")?.bytes).toBeGreaterThan(shape("qwen2.5-7b").bytes);
    for (const { bytes, room } of apart?.places ?? []) if (room !== null) expect(bytes).toBeLessThanOrEqual(room);
  });

  it("of a server's card is a share of the model with several cards", () => {
    const weights = (layout: Layout | undefined) =>
      layout?.places.flatMap(({ rows }) => rows).find(({ name }) => name === "vLLM: weights")?.bytes as number;
    const ways = all(plan("qwen2.5-14b", "8xh100-80gb"));
    const [one, two] = [/vLLM servers( \(|$)/, /servers over 2 cards each/].map((text) =>
      weights(ways.find(({ name }) => text.test(name))),
    );
    expect(one).toBeCloseTo(2 * (two as number), -3);
  });
});

interface Counted {
  readonly shape: string;
  readonly type: string;
  readonly traffic: string;
  readonly sequences: number;
  readonly estimates: readonly { readonly card: string; readonly tokensPerSecond: number }[];
}

describe("a CPU", () => {
  const on = (assume: Record<string, number>) => plan("smollm2-135m-q4_1", "cpu", { assume }).best;
  const rates = { "cpu-bandwidth": 1e10, "cpu-products": 1e11 };

  it("computes at the rates that were measured, whole, and its memory is this machine's", () => {
    const halved = on({ ...rates, updates: 0.5 });
    expect(partOf(halved, "update: forward") / partOf(on(rates), "update: forward")).toBeCloseTo(2, 6);
    const faster = on({ ...rates, "cpu-products": 2e11 });
    expect(partOf(on(rates), "update: forward") / partOf(faster, "update: forward")).toBeCloseTo(2, 6);
    expect(on(rates)?.places.map(({ name }) => name)).toEqual(["main memory"]);
  });
});

describe("decoding", () => {
  const counts = "bench/results/card-counts-engine-nvidia-h100-80gb-hbm3.json";
  const { rows } = JSON.parse(readFileSync(join(packageRoot, counts), "utf8")) as { rows: readonly Counted[] };

  it.each([
    ["0.5b", "4090", /4090/],
    ["1.5b", "h100-80gb", /H100/],
    ["7b", "a100-80gb", /A100/],
  ])("of %s on a %s agrees with what was counted on a card that does not compute", (size, card, name) => {
    const row = rows.find(
      (one) => one.shape === size && one.type === "bf16" && one.traffic === "decode" && one.sequences === 64,
    );
    const counted = row?.estimates.find((one) => name.test(one.card))?.tokensPerSecond as number;
    const { best } = plan(`qwen2.5-${size}`, card, {
      ...{ turns: 1, turnTokens: 200, promptTokens: 300, resultTokens: 0, loraRank: 8 },
      // What a kernel was estimated to cost there.
      ...{ engine: "llama.cpp", assume: { busy: 1, pass: 1.1e-4 } },
    });
    const planned = (64 * 200) / partOf(best, "rollouts: decoding");
    expect(planned / counted).toBeGreaterThan(0.85);
    expect(planned / counted).toBeLessThan(1.15);
  });
});

describe("an H200", () => {
  const h200 = resultsOf("cuda-2026-11-26-nvidia-h200.json");
  const on = (options: Partial<PlanOptions>) =>
    plan("qwen2.5-0.5b", "h200", { loraRank: 8, engine: "llama.cpp", ...options }).best;
  const rollouts = (best: ReturnType<typeof on>) =>
    partOf(best, "rollouts: prompts") + partOf(best, "rollouts: decoding");
  const seconds = (values: readonly number[]) => [...new Set(values.map((value) => value.toFixed(1)))].join(" to ");

  it("decodes 64 sequences as fast as planned", () => {
    const { withAdapter } = h200.engine.rows.find(
      (row: { traffic: string; sequences: number }) => row.traffic === "decode" && row.sequences === 64,
    );
    const best = on({ turns: 1, turnTokens: 200, promptTokens: 200, resultTokens: 0, assume: { busy: 1 } });
    expect((64 * 200) / partOf(best, "rollouts: decoding") / withAdapter[1]).toBeCloseTo(1, 1);
  });

  it("takes beside the plan what docs/scale.md says", () => {
    // Agents' means (bench/card/traffic.ts), and the tokens of a step.
    const agents = on({
      ...{ groupsPerStep: 16, groupSize: 8, promptTokens: 600, turns: 3, turnTokens: 50, resultTokens: 150 },
    });
    const steps: readonly { tokens: number; sampled: number; seconds: { rollouts: number; update: number } }[] =
      h200.steps.steps;
    const { tokens, sampled } = steps.at(-1) as (typeof steps)[number];
    const turnTokens = sampled / 32;
    const step = on({
      ...{ groupsPerStep: 8, groupSize: 4, promptTokens: Math.round(tokens / 32) - turnTokens, loraRank: 16 },
      ...{ turns: 1, turnTokens, resultTokens: 0 },
    });
    // The first step's update compiles kernels.
    const updates = steps.slice(1).map((one) => one.seconds.update);
    expect(rowsOf("docs/scale.md", "an H200, 0.5B")).toEqual([
      [
        "rollouts of 128 agents, 64 at once",
        `${seconds([rollouts(agents)])} s`,
        `${seconds([h200.lanes.seconds["two lanes"]])} s`,
      ],
      [
        "32 rollouts of a training step",
        `${seconds([rollouts(step)])} s`,
        `${seconds(steps.map((one) => one.seconds.rollouts).sort())} s`,
      ],
      ["its update", `${seconds([partOf(step, "update: forward")])} s`, `${seconds(updates.sort())} s`],
    ]);
  });
});

describe("time", () => {
  const device: Device = readCluster("h100-80gb", ASSUMED).device;
  const step: Step = {
    device,
    work: { groups: 8, groupSize: 8, prompt: 600, turns: 3, turnTokens: 100, resultTokens: 300, judgeSeconds: 0 },
    input: withWideRows(defaultRun(shape("qwen2.5-7b"), "cuda", 1), roomOfCard(80)),
    players: { engines: 1, cards: 1, concurrency: 64 },
    ranks: 1,
    rankMachines: 1,
  };
  const seconds = (change: Partial<Step>, name: string, assumed = ASSUMED) =>
    partsOf({ ...step, ...change }, assumed).find((part) => part.name.startsWith(name))?.seconds as number;

  it("of an update is 4 operations for each weight and position, 6 for each of the output layer and sampled token", () => {
    const { layers, heads, headSize, vocabulary, embedding, parameters } = step.input.shape;
    const tokens = stepTokens(step.work);
    const linear = parameters - 2 * vocabulary * embedding;
    const least = tokens.positions * (4 * linear + 12 * layers * heads * headSize * tokens.attended);
    const whole = least + 6 * tokens.sampled * vocabulary * embedding;
    const share = seconds({}, "update: forward") / (whole / (ASSUMED.updates * device.products));
    // Biases and norms are in `parameters`; the adapter's products are not in `whole`.
    expect(share).toBeGreaterThan(1);
    expect(share).toBeLessThan(1.03);
  });

  it("follows what bounds it", () => {
    const twice = { ...device, bandwidth: 2 * device.bandwidth };
    const kernels = { ...ASSUMED, pass: 0 };
    const decoding = (change: Partial<Step>) => seconds(change, "rollouts: decoding", kernels);
    expect(decoding({ device: twice }) / decoding({})).toBeCloseTo(0.5, 6);
    expect(seconds({ device: twice }, "update: forward")).toBe(seconds({}, "update: forward"));
    expect(seconds({ ranks: 4 }, "update: forward") / seconds({}, "update: forward")).toBeCloseTo(0.25, 6);
    const engines = (count: number) => ({ players: { ...step.players, engines: count, served: "here" as const } });
    expect(seconds(engines(4), "rollouts: prompts") / seconds(engines(1), "rollouts: prompts")).toBeCloseTo(0.25, 1);
    // Groups stay on their server: nine servers have eight groups.
    expect(seconds(engines(9), "rollouts: prompts")).toBe(seconds(engines(8), "rollouts: prompts"));
  });

  it("counts what options cost", () => {
    const names = (change: Partial<Step["input"]>) =>
      partsOf({ ...step, input: { ...step.input, ...change } }, ASSUMED).map(({ name }) => name);
    expect(names({})).not.toContain("engine's weights again");
    expect(names({ releaseWeights: true })).toContain("engine's weights again");
    expect(names({ learnerLifetime: "offload" })).toContain("learner's weights out and in");
    expect(names({ learnerLifetime: "step" })).toContain("learner started again");
    const checkpointed = { input: { ...step.input, gradientCheckpointing: true } };
    expect(seconds(checkpointed, "update: forward") / seconds({}, "update: forward")).toBeGreaterThan(1.3);
  });
});

describe("docs/scale.md", () => {
  it("has the table that the plan makes", () => {
    expect(readFileSync(join(packageRoot, "docs/scale.md"), "utf8")).toContain(scaleTable());
  });
});

describe("a plan", () => {
  it.each([
    ["qwen2.5-7b", "4xa100-80gb"],
    ["qwen2.5-14b", "2x8xh100-80gb"],
    ["qwen2.5-3b", "4090"],
  ])("of %s on %s has a fast way first, and options that hone takes", async (model, cards) => {
    const found = plan(model, cards);
    const seconds = found.others.map((one) => one.seconds);
    expect(seconds).toEqual([...seconds].sort((a, b) => a - b));
    expect(found.best?.seconds).toBeLessThanOrEqual(1.05 * Math.min(...seconds, Number.POSITIVE_INFINITY));
    for (const { flags } of [...all(found), ...found.next]) {
      await checkLine(`yarn train ${flags.join(" ")}`);
    }
    for (const { seconds: faster, gain } of found.next) {
      expect(gain).toBeCloseTo((found.best?.seconds as number) / faster, 6);
      expect(gain).toBeGreaterThan(1);
    }
  });

  it("says what to add where nothing fits", () => {
    const { best, next } = plan("qwen2.5-7b", "4090");
    expect(best).toBeUndefined();
    expect(next.map(({ what }) => what)).toContain("1 × A100 80GB");
    expect(next.map(({ what }) => what)).toContain("weights in 4 bits (Q4_K_M)");
  });

  it("has a part of the weights on each rank where whole ones do not fit, which costs gathering them", () => {
    const { best, misfits } = plan("qwen2.5-7b", "4x4090");
    const [, ranks] = /--learner-shards (\d)/.exec(best?.flags.join(" ") ?? "") ?? [];
    expect(best?.flags.join(" ")).toContain(`--nproc-per-node ${ranks}"`);
    const weights = best?.places[0]?.rows.find(({ name }) => name === "learner: weights")?.bytes as number;
    expect(weights).toBeLessThan(shape("qwen2.5-7b").bytes);
    expect(partOf(best, "update: gathering")).toBeGreaterThan(0);
    expect(misfits.map(({ name }) => name)).toContain("learner on card 1, 3 vLLM servers");
    expect(all(plan("qwen2.5-1.5b", "2xa100-80gb")).every(({ flags }) => !/shards/.test(flags.join(" ")))).toBe(true);
  });

  it("says what playing the next step during the update gains, on the cards that are there or with one more", () => {
    const ahead = (cards: string) =>
      plan("qwen2.5-1.5b", cards).next.find(({ flags }) => flags.join(" ").includes("--staleness 1"));
    expect(ahead("4090")?.what).toBe("2 × RTX 4090, the next step played during the update");
    expect(ahead("4090")?.flags).toEqual(["--device 0 --learner-device 1", "--staleness 1"]);
    const apart = all(plan("qwen2.5-1.5b", "2x4090")).find(({ flags }) => flags[0]?.includes("--learner-device"));
    const phase = (name: string) =>
      (apart?.parts ?? []).filter((part) => part.phase === name).reduce((sum, { seconds }) => sum + seconds, 0);
    const [play, update, swap] = [phase("play"), phase("update"), phase("swap")];
    expect(apart?.seconds).toBeCloseTo(play + update + swap, 9);
    expect(ahead("4090")?.seconds).toBeCloseTo(Math.max(play, update) + swap, 9);
    expect(apart?.places.map(({ name }) => name)).toEqual(["card 1", "card 2", "main memory"]);
    expect(apart?.places[1]?.rows.every(({ name }) => name.startsWith("learner"))).toBe(true);
  });

  it("keeps to the engine that is asked for", () => {
    const engines = (engine: "llama.cpp" | "vllm") =>
      all(plan("qwen2.5-0.5b", "2xa100-80gb", { engine })).map(({ flags }) => /--engine vllm/.test(flags.join(" ")));
    expect(new Set(engines("llama.cpp"))).toEqual(new Set([false]));
    expect(new Set(engines("vllm"))).toEqual(new Set([true]));
  });

  it("says that it is arithmetic, what it assumed, and the same to programs", () => {
    const found = plan("qwen2.5-7b", "4xa100-80gb", { assume: { price: 2 } });
    const text = stepPlanText("qwen2.5-7b", found);
    expect(text).toContain("arithmetic, not measured");
    expect(text).toContain("updates 0.4 share");
    expect(text).toMatch(/100 steps: [\d.]+ hours, [\d.]+ card-hours, \$/);
    const json = stepPlanJson("qwen2.5-7b", found);
    expect(json.measured).toBe(false);
    expect(json.best?.seconds).toBe(found.best?.seconds);
    expect(sumOf(json.best?.places[0]?.rows ?? [])).toBe(json.best?.places[0]?.bytes);
    expect(json.assumed.price).toBe(2);
  });
});

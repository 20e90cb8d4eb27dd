import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type GivenOptions, options, readGiven } from "../../src/core/config/config.js";
import { sizeOf } from "../../src/core/config/sizes.js";
import type { RunRecord } from "../../src/core/run/records.js";
import { STORE_FILE } from "../../src/core/run/run.js";
import { checkSameRun } from "../../src/core/run/settings.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { requireRewards } from "../../src/judge/reward/open.js";
import { loadTask } from "../../src/scenarios/load.js";
import { planRun } from "../../src/trainer/run.js";
import { asksForAnother, resolveSettings } from "../../src/trainer/settings.js";

const models = {
  tiny: { reference: "tiny", parameters: 4e6, trainedContext: 8192, architecture: "qwen2" },
  small: { reference: "/m/qwen-0.5b.gguf", parameters: 0.5e9, trainedContext: 32768, architecture: "qwen2" },
  large: { reference: "/m/qwen-7b.gguf", parameters: 7.6e9, trainedContext: 32768, architecture: "qwen2" },
};

interface Case {
  readonly model?: keyof typeof models;
  readonly recorded?: RunRecord | undefined;
}

const resolve = (given: GivenOptions, { model = "small", recorded }: Case = {}) =>
  // 100 scenarios to train on.
  resolveSettings({ given, recorded, model: models[model], stepsPerEpoch: (groups) => Math.floor(100 / groups) });

/** The run as it would have been begun. */
function begun(given: GivenOptions, more: Case = {}): RunRecord {
  return { name: "r", created: "", options: { ...resolve(given, more) }, contents: { model: "a", scenarios: "b" } };
}

describe("settings that nobody gives", () => {
  it("suit the model's size", () => {
    expect(resolve({}, { model: "tiny" })).toMatchObject({ learningRate: 1e-3, loraRank: 16, maxTokens: 256 });
    expect(resolve({}, { model: "small" })).toMatchObject({ learningRate: 1e-5, loraRank: 8, maxTokens: 2048 });
    expect(resolve({}, { model: "large" })).toMatchObject({ learningRate: 5e-6, loraRank: 8, maxTokens: 2048 });
  });

  it("are shown in the help as they are taken", () => {
    expect([0.99e8, 1e8, 1.99e9, 2e9].map(sizeOf)).toEqual(["tiny", "small", "small", "large"]);
    const { learningRate, maxTokens, groupSize } = options;
    expect(learningRate.defaultText).toEqual({
      other: "0.001 below 0.1 billion parameters, 1e-5 below 2 billion, 5e-6 above",
      sft: "0.003, 0.0002, 0.0001 for an adapter",
    });
    expect(maxTokens.defaultText).toMatchObject({ train: "256 below 0.1 billion parameters, 2048 above" });
    expect(groupSize.defaultText).toMatchObject({ train: "8" });
  });

  it("give a conversation what the model was trained with, at most 8192 tokens", () => {
    expect(resolve({}).context).toBe(8192);
    const small = { reference: "m", parameters: 1e6, trainedContext: 2048, architecture: "qwen2" };
    const settings = resolveSettings({ given: {}, recorded: undefined, model: small, stepsPerEpoch: () => 1 });
    expect(settings.context).toBe(2048);
  });
});

it("an adapter is on all parts of what is one layer, or on none", () => {
  const model = { ...models.small, architecture: "phi3" };
  const of = (loraTargets: string[]) =>
    resolveSettings({ given: { loraTargets }, recorded: undefined, model, stepsPerEpoch: () => 1 }).loraTargets;
  expect(() => of(["q_proj", "v_proj", "o_proj"])).toThrow(
    /^--lora-targets: q_proj, k_proj, v_proj are one layer of this model; name all of them, or none$/,
  );
  expect(of(["o_proj", "up_proj", "gate_proj"])).toEqual(["o_proj", "up_proj", "gate_proj"]);
  expect(resolve({ loraTargets: ["q_proj"] }).loraTargets).toEqual(["q_proj"]);
});

describe("--preset art-e", () => {
  // OpenPipe/ART, the email agent: ProjectPolicyConfig and the trainer's own defaults.
  const art = {
    groupsPerStep: 12,
    groupSize: 4,
    learningRate: 1.2e-5,
    finalLearningRate: 1.2e-5,
    warmup: 0,
    loraRank: 8,
    loraAlpha: 16,
    kl: 0,
    clipLow: 0.2,
    clipHigh: 0.2,
    maxGradNorm: 0.1,
    stdFloor: 1e-6,
    temperature: 1,
    maxTurns: 10,
    maxTokens: 2048,
    onToolError: "stop",
    reward: "shaped",
    accuracy: "judge",
    validateEvery: 30,
    validateN: 100,
  };

  it.each(["tiny", "small", "large"] as const)("is ART's values on a %s model", (model) => {
    // Three passes over 100 scenarios in steps of 12.
    expect(resolve({ preset: "art-e" }, { model })).toMatchObject({ ...art, steps: 24 });
  });

  it("yields to what is given besides", () => {
    const given = { preset: "art-e", groupsPerStep: 10, onToolError: "observe", steps: 7 };
    expect(resolve(given)).toMatchObject({ ...art, groupsPerStep: 10, onToolError: "observe", steps: 7 });
  });

  it("counts its epochs in steps of the size that is given", () => {
    expect(resolve({ preset: "art-e", groupsPerStep: 10 }).steps).toBe(30);
  });

  it("has no final rate of its own for a rate that is given", () => {
    expect(resolve({ preset: "art-e", learningRate: 1e-4 })).toMatchObject({
      learningRate: 1e-4,
      finalLearningRate: 1e-4,
    });
    expect(resolve({ learningRate: 1e-4 }).finalLearningRate).toBe(1e-4);
    expect(resolve({ learningRate: 1e-4, finalLearningRate: 1e-6 }).finalLearningRate).toBe(1e-6);
  });
});

describe("--preset art-notebook", () => {
  // ART's notebook of the email agent, on the model of 0.5 billion parameters.
  const notebook = {
    steps: 20,
    groupsPerStep: 2,
    groupSize: 4,
    learningRate: 1e-5,
    finalLearningRate: 1e-5,
    warmup: 0,
    reward: "ruler",
    accuracy: "judge",
    maxTurns: 10,
    maxTokens: 2048,
    temperature: 1,
    onToolError: "stop",
    loraRank: 8,
    loraAlpha: 16,
    loraTargets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
    loss: "dapo",
    advantages: "grpo",
    kl: 0,
    clipLow: 0.2,
    clipHigh: 0.2,
    iterations: 1,
    minibatches: 1,
    maxGradNorm: 0.1,
    stdFloor: 1e-6,
    judgeVotes: 1,
  };

  it("is the whole run, with a model and a judge besides", async () => {
    const flags = {
      preset: "art-notebook",
      model: "Qwen/Qwen2.5-0.5B-Instruct",
      judgeUrl: "http://127.0.0.1:8080/v1",
      judgeModel: "gpt-6.1-terra",
    };
    const given = await readGiven({ flags, folder: tmpdir() });
    const settings = resolve(given);
    expect(settings).toMatchObject({ ...notebook, judgeUrl: flags.judgeUrl, judgeModel: "gpt-6.1-terra" });
    const task = await loadTask("email");
    await requireRewards(settings, task);
    await expect(requireRewards(resolve({ preset: "art-notebook" }), task)).rejects.toThrow(
      "--reward ruler needs a judge: give --judge-model, a model that hone runs here",
    );
  });

  it("yields to what is given besides, and goes on with the steps of its run", () => {
    const given = { preset: "art-notebook", steps: 40, reward: "task", accuracy: "task" };
    expect(resolve(given)).toMatchObject({ ...notebook, steps: 40, reward: "task", accuracy: "task" });
    expect(resolve({ preset: "art-notebook" }, { recorded: begun(given) }).steps).toBe(40);
  });
});

describe("a run that goes on", () => {
  const check = (recorded: RunRecord, given: GivenOptions, contents = recorded.contents) =>
    checkSameRun(recorded, resolve(given, { recorded }), contents, "/runs/r");

  it("keeps what it was begun with", () => {
    const recorded = begun({ preset: "art-e", groupsPerStep: 10, seed: 3 });
    expect(resolve({}, { recorded })).toEqual(recorded.options);
    expect(() => check(recorded, {})).not.toThrow();
    expect(() => check(recorded, { groupsPerStep: 10, seed: 3 })).not.toThrow();
    const ofTask = ["--set level 2 (was 1)"];
    expect(() => checkSameRun(recorded, resolve({}, { recorded }), recorded.contents, "/runs/r", ofTask)).toThrow(
      "/runs/r was begun differently: --set level 2 (was 1).",
    );
  });

  it("is refused where its model has its name and other weights", () => {
    const recorded = { ...begun({}), contents: { model: "a" } };
    expect(() => check(recorded, {}, { model: "b" })).toThrow(
      "the run /runs/r was trained from other weights than --model /m/qwen-0.5b.gguf has now, and its adapters fit those alone.\nBegin another run with --run NAME",
    );
  });

  it("has the tools of MCP servers that it was begun with, wherever those are named", () => {
    const recorded = { ...begun({ mcp: "/old/servers.json" }), contents: { model: "m", tools: "ab" } };
    expect(() => check(recorded, { mcp: "/new/servers.json" })).not.toThrow();
    expect(() => check(recorded, {}, { model: "m", tools: "cd" })).toThrow(/other contents of the tools/);
    expect(() => check(recorded, {}, { model: "m" })).toThrow(/other contents of the tools/);
  });

  it("may change what makes it no other run", () => {
    const recorded = begun({});
    const given = { steps: 99, keep: 5, validateEvery: 2, microBatchTokens: 512 };
    expect(() => check(recorded, given)).not.toThrow();
    expect(resolve(given, { recorded })).toMatchObject(given);
  });

  it("begins anew where it has no step and other options are given, and not where those are some of its own", () => {
    const { options, ...others } = begun({ learningRate: 1e-4 });
    const recorded = { ...others, options: { ...options, set: { level: 2 } } };
    const isOther = (given: GivenOptions) => asksForAnother(recorded, given);
    expect([{}, { learningRate: 1e-4 }, { steps: 99 }, { set: { level: 2 } }].map(isOther)).not.toContain(true);
    const changes = [{ learningRate: 1e-3 }, { model: "m" }, { set: { level: 3 } }, { preset: "art-e" }, { fork: "f" }];
    expect(changes.map(isOther)).not.toContain(false);
  });

  it("without a step goes on with its own options, and takes none of them over where it begins anew", async () => {
    const home = mkdtempSync(join(tmpdir(), "hone-settings-"));
    const given = { home, task: join(packageRoot, "examples/arithmetic.ts"), model: "tiny", gpu: "off" } as const;
    const { folder, settings, contents } = await planRun({ ...given, groupsPerStep: 2 });
    mkdirSync(folder, { recursive: true });
    const store = RunStore.open(join(folder, STORE_FILE));
    store.begin({ name: "tiny", created: "", options: settings, contents }, { checkpoint: null, adapter: null });
    const plannedWith = async (more: object) => (await planRun({ ...given, ...more })).settings;
    expect(await plannedWith({ steps: 9 })).toMatchObject({ groupsPerStep: 2, finalLearningRate: 3e-4 });
    expect(await plannedWith({ learningRate: 1e-4 })).toMatchObject({ groupsPerStep: 16, finalLearningRate: 1e-4 });
    // Once it has a step they are its own, whatever is given: Run.open refuses the others.
    store.commitStep({ step: 1, checkpoint: null, adapter: null, metrics: null, timing: null }, []);
    expect(await plannedWith({ learningRate: 1e-4 })).toMatchObject({ groupsPerStep: 2, finalLearningRate: 3e-4 });
    store.close();
  });

  it("is refused for a model that no memory of this machine holds before its weights are converted", async () => {
    const model = mkdtempSync(join(tmpdir(), "hone-large-"));
    const config = {
      model_type: "qwen2",
      architectures: ["Qwen2ForCausalLM"],
      hidden_size: 65536,
      intermediate_size: 262144,
      num_hidden_layers: 512,
      num_attention_heads: 512,
      num_key_value_heads: 8,
      vocab_size: 152000,
      max_position_embeddings: 32768,
    };
    const files = {
      "config.json": config,
      "tokenizer.json": {},
      "tokenizer_config.json": { chat_template: "{{ messages }}" },
      "model.safetensors": "never read",
    };
    for (const [name, content] of Object.entries(files)) writeFileSync(join(model, name), JSON.stringify(content));
    const given = { home: model, task: join(packageRoot, "examples/arithmetic.ts"), model, gpu: "off" } as const;
    await expect(planRun(given)).rejects.toThrow(/^this run does not fit: about [\d.]+ GB are needed/);
  });

  it("is refused with every difference, and the way out", () => {
    const recorded = begun({ learningRate: 1e-4 });
    const given = { learningRate: 1e-3, groupSize: 16, loraTargets: ["q_proj"] };
    expect(() => check(recorded, given)).toThrow(
      /--group-size 16 \(was 8\); --learning-rate 0.001 \(was 0.0001\); .*--lora-targets q_proj \(was q_proj,k_proj.*--fork \/runs\/r\/checkpoints\/NNNN/s,
    );
  });

  it("is refused when the preset is another, or the contents changed", () => {
    const recorded = begun({});
    expect(() => check(recorded, { preset: "art-e" })).toThrow(
      /--on-tool-error stop .*--groups-per-step 12 \(was 8\).*--std-floor 0.000001/,
    );
    expect(() => check(recorded, {}, { model: "a", scenarios: "other" })).toThrow(
      /: other contents of the scenarios\.\nBring back the former to go on with it, /,
    );
  });
});

describe("how a model converses", () => {
  const given: GivenOptions = { toolFormat: "llama3", templateArg: { enable_thinking: false }, maxThinkingTokens: 64 };
  const check = (recorded: RunRecord, more: GivenOptions) =>
    checkSameRun(recorded, resolve(more, { recorded }), recorded.contents, "/runs/r");

  it("belongs to the run, which goes on with it", () => {
    const recorded = begun(given);
    expect(recorded.options).toMatchObject(given);
    expect(resolve({}, { recorded })).toMatchObject(given);
    expect(() => check(recorded, {})).not.toThrow();
    expect(() => check(recorded, given)).not.toThrow();
  });

  it("makes it another run", () => {
    const recorded = begun(given);
    expect(() => check(recorded, { toolFormat: "hermes" })).toThrow("--tool-format hermes (was llama3)");
    expect(() => check(recorded, { templateArg: { enable_thinking: true } })).toThrow(
      '--template-arg {"enable_thinking":true} (was {"enable_thinking":false})',
    );
    expect(() => check(recorded, { maxThinkingTokens: 65 })).toThrow("--max-thinking-tokens 65 (was 64)");
    expect(() => check(begun({}), { maxThinkingTokens: 65 })).toThrow("--max-thinking-tokens 65 (was unset)");
  });
});

describe("an objective", () => {
  it("is updated once for each group at most", () => {
    expect(resolve({ minibatches: 8, groupsPerStep: 8 })).toMatchObject({ minibatches: 8 });
  });

  it("brings its own bounds and its paper's advantages, unless others are given", () => {
    expect(resolve({})).toMatchObject({ loss: "dapo", advantages: "grpo", clipLow: 0.2, clipHigh: 0.28 });
    expect(resolve({ loss: "grpo" })).toMatchObject({ advantages: "grpo", clipLow: 0.2, clipHigh: 0.2 });
    expect(resolve({ loss: "dr-grpo" })).toMatchObject({ advantages: "dr-grpo", clipLow: 0.2, clipHigh: 0.28 });
    expect(resolve({ loss: "gspo" })).toMatchObject({ advantages: "grpo", clipLow: 3e-4, clipHigh: 4e-4 });
    expect(resolve({ loss: "cispo" })).toMatchObject({ clipLow: undefined, clipHigh: 4 });
    const own = { loss: "gspo", clipLow: 0.1, advantages: "rloo" };
    expect(resolve(own)).toMatchObject({ ...own, clipHigh: 4e-4 });
  });

  it("other than the preset's is not bounded by the preset's bounds, also when the run goes on", () => {
    expect(resolve({ preset: "art-e", loss: "gspo" })).toMatchObject({ clipLow: 3e-4, clipHigh: 4e-4 });
    const recorded = begun({ preset: "art-e", loss: "gspo" });
    const again = resolve({ preset: "art-e" }, { recorded });
    expect(() => checkSameRun(recorded, again, recorded.contents, "/runs/r")).not.toThrow();
  });

  it("of a run that begins anew does not take over the bounds of the one before", () => {
    const recorded = begun({ loss: "gspo" });
    expect(resolve({ loss: "cispo" }, { recorded })).toMatchObject({ clipLow: undefined, clipHigh: 4 });
    expect(resolve({ loss: "dr-grpo" }, { recorded })).toMatchObject({ advantages: "dr-grpo", clipHigh: 0.28 });
  });

  const chosen: GivenOptions = {
    iterations: 2,
    minibatches: 4,
    refill: 6,
    maskTruncated: true,
    importanceSampling: "sequence-mask",
    importanceMin: 0.5,
    importanceMax: 3,
    advantages: "rloo",
    loss: "cispo",
  };

  it("and how it is learnt are kept with the run, and make it another one", () => {
    const recorded = begun(chosen);
    // As it is read from the store.
    const stored = { ...recorded, options: JSON.parse(JSON.stringify(recorded.options)) };
    const check = (given: GivenOptions) =>
      checkSameRun(stored, resolve(given, { recorded: stored }), stored.contents, "/runs/r");
    expect(resolve({}, { recorded: stored })).toMatchObject(chosen);
    expect(() => check({})).not.toThrow();
    for (const [name, value] of Object.entries({ iterations: 3, minibatches: 1, refill: 0, importanceMax: 2 })) {
      expect(() => check({ [name]: value }), name).toThrow("was begun differently");
    }
    expect(() => check({ importanceSampling: "off", maskTruncated: false })).toThrow(
      "--mask-truncated false (was true); --importance-sampling off (was sequence-mask)",
    );
  });
});

describe("settings that cannot be trained with", () => {
  it.each([
    [{ temperature: 0 }, /--temperature 0/],
    [{ groupSize: 1 }, /--group-size 1: .*give at least 2/],
    [{ minibatches: 9 }, /--minibatches 9: a step has only 8 groups to deal/],
    [{ loss: "cispo", clipLow: 0.2 }, /--clip-low 0.2: cispo has no lower bound/],
    [{ loraAlpha: 0 }, /--lora-alpha 0/],
    [{ loraTargets: ["q_proj", "lm_head"] }, /--lora-targets lm_head: an adapter can be put on q_proj, /],
    [{ context: 40_000 }, /--context 40000: the model was trained with 32768 tokens/],
  ])("%j is refused", (given, message) => {
    expect(() => resolve(given)).toThrow(message);
  });
});

describe("settings of judging", () => {
  const judged: GivenOptions = {
    reward: "ruler",
    judgeUrl: "http://127.0.0.1:8080/v1",
    judgeModel: "judge",
    judgeKey: "sk-very-secret",
    rulerRubric: "/r/rubric.txt",
  };

  it("are kept with the run, all but the key", () => {
    const { options } = begun(judged);
    expect(options).toMatchObject({ judgeModel: "judge", judgeVotes: 1, judgeUrl: judged.judgeUrl, accuracy: "task" });
    expect(JSON.stringify(options)).not.toContain("secret");
  });

  it("make it another run where verdicts depend on them, and only there", () => {
    const recorded = begun(judged);
    const again = (given: GivenOptions) =>
      checkSameRun(recorded, resolve(given, { recorded }), recorded.contents, "/runs/r");
    expect(() => again({})).not.toThrow();
    expect(() => again({ judgeUrl: "http://elsewhere/v1", judgeTimeout: 5, judgeMaxCost: 3 })).not.toThrow();
    expect(() => again({ judgeModel: "another" })).toThrow("--judge-model another (was judge)");
    expect(() => again({ judgeVotes: 3 })).toThrow("--judge-votes 3 (was 1)");
    expect(() => again({ judgeTemperature: 0 })).toThrow("--judge-temperature 0 (was unset)");
    const rubric = { ...recorded, contents: { ...recorded.contents, rubric: "a hash" } };
    const other = { ...recorded.contents, rubric: "another hash" };
    expect(() => checkSameRun(rubric, resolve({}, { recorded }), other, "/runs/r")).toThrow(
      "other contents of the rubric",
    );
  });

  it("ask the judge about held-out answers under --reward shaped, unless somebody says otherwise", () => {
    expect(resolve({ ...judged, reward: "shaped" }).accuracy).toBe("judge");
    expect(resolve({ ...judged, reward: "shaped", accuracy: "task" }).accuracy).toBe("task");
    expect(resolve({ accuracy: "judge" }).accuracy).toBe("judge");
  });
});

/** Options of an update: its objective (the rollouts it uses, and its loss), its adapter and its learner. Part of options.ts. */
import { type Config, declareOptions } from "../core/config/config.js";
import { choice, flag, inGroup, list, real, text, whole } from "../core/config/option.js";
import {
  advantageEstimators,
  boundText,
  importanceModes,
  objectiveNames,
  objectivesText,
} from "../core/learn/objectives.js";
import { UsageError } from "../core/util/errors.js";
import { hone } from "../core/util/program.js";
import { MODEL_USERS } from "../machine/model-users.js";

const MANY = Number.MAX_SAFE_INTEGER;

const learnerOptions = declareOptions({
  ...inGroup("Objective", ["train"], {
    loss: choice(objectiveNames, `${objectivesText()}.`, { default: "dapo", run: "identity" }),
    advantages: choice(
      advantageEstimators,
      "A rollout's reward minus its group's mean, divided by the group's standard deviation (grpo) or not (dr-grpo); rloo: minus the mean of the group's others (arXiv 2402.14740).",
      { defaultText: "that of the paper of --loss", run: "identity", determined: true },
    ),
    stdFloor: real(0, 1, "Added to the standard deviation by which --advantages grpo divides.", {
      default: 0.1,
      run: "identity",
    }),
    clipLow: real(0, 1, "The policy ratio is clipped below 1 minus this.", {
      defaultText: boundText("clipLow"),
      run: "identity",
    }),
    clipHigh: real(0, 10, "The policy ratio is clipped above 1 plus this.", {
      defaultText: boundText("clipHigh"),
      run: "identity",
      determined: true,
    }),
    kl: real(
      0,
      100,
      `Weight in the loss of the KL divergence to the model without an adapter, for the rollouts of all groups. In a run forked from \`${hone("sft")}\` that is the model before imitation.`,
      { default: 0, run: "identity" },
    ),
    iterations: whole(1, 10_000, "Passes over a step's batch, each with an update: μ of the GRPO paper.", {
      default: 1,
      run: "identity",
    }),
    minibatches: whole(
      1,
      1024,
      "Updates that a step's batch is divided into, by whole groups. From 2 on, π_old costs a further forward pass over all but the first.",
      { default: 1, run: "identity" },
    ),
    refill: whole(
      0,
      MANY,
      "Further scenarios that a step may play in place of those whose rollouts have equal rewards (DAPO's dynamic sampling).",
      { default: 0, run: "identity" },
    ),
    rest: whole(
      0,
      MANY,
      "Epochs that a scenario sits out whose last group had equal rewards, or that is outside --difficulty. 0: none, and those outside --difficulty are out for good.",
      { default: 0, run: "identity" },
    ),
    maskTruncated: flag("Do not train on rollouts that a limit ended; they still count in their group's mean.", {
      default: false,
      run: "identity",
    }),
    importanceSampling: choice(
      importanceModes,
      "Weight of a token: the ratio of the learner's to the engine's probability, of the token or of its rollout (sequence). Weights outside the bounds become the bound (truncate) or 0 (mask).",
      { default: "token-truncate", run: "identity" },
    ),
    importanceMin: real(0, 1, "Lower bound of that weight; 0 is none.", {
      default: 0,
      run: "identity",
    }),
    importanceMax: real(1, 1e9, "Upper bound of that weight.", { default: 2, run: "identity" }),
  }),
  ...inGroup("Imitation", ["sft"], {
    successes: flag("Learn from rollouts that solved their scenario only.", { default: false, first: ["sft"] }),
    epochs: whole(1, 10_000, "Passes over the rollouts of the file.", { default: 1, first: ["sft"] }),
    updateTrajectories: whole(1, MANY, "Rollouts in one update.", { default: 16 }),
    fullWeights: flag("Train all weights instead of an adapter: for small models.", { default: false, first: ["sft"] }),
  }),
  ...inGroup("Adapter and learner", ["sft", "train"], {
    loraRank: whole(1, 1024, "Rank of the adapter.", {
      commands: ["sft", "train", "doctor"],
      bySize: { tiny: 16, small: 8 },
      run: "identity",
    }),
    loraAlpha: real(0, 4096, "The adapter's output is scaled by this, divided by the rank.", {
      bySize: { tiny: 32, small: 16 },
      run: "identity",
    }),
    loraTargets: list("Linear layers that get an adapter.", {
      default: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
      run: "identity",
    }),
    learner: choice(
      ["auto", "peft", "unsloth"],
      "Library that computes the updates; auto is peft. unsloth is installed at first use.",
      {
        default: "auto",
        commands: ["sft", "train", "replay", "pack", "doctor"],
        first: ["pack"],
      },
    ),
    learnerDevice: text("The learner's device, where it is not the engine's: another NVIDIA GPU, or cpu.", {
      accepts: "an index, a UUID or cpu",
      defaultText: "the engine's",
      commands: ["train", "replay"],
    }),
    learnerLifetime: choice(
      ["run", "step", "offload"],
      "The learner stays loaded (run), ends after each update (step), or waits in main memory and leaves the GPU to the engine (offload).",
      { default: "run", commands: ["train"] },
    ),
    learnerLaunch: text(
      "Command that starts several processes, which share out each update; it sets RANK and WORLD_SIZE.",
      {
        accepts: "a command, as torchrun --nproc-per-node 2",
        defaultText: "none: one process computes",
      },
    ),
    python: text("Python that has the learner's packages.", {
      accepts: "a path",
      defaultText: "hone's own environment, made at first use",
      commands: [...MODEL_USERS, "replay", "judge"],
      first: ["pack"],
      library: ["model"],
    }),
    install: flag("First make the learner's Python environment, and fetch llama.cpp's libraries for the GPU.", {
      default: false,
      commands: ["doctor"],
    }),
    torchIndex: text("Package index, such as a mirror, to install PyTorch from.", {
      accepts: "a URL",
      flagless: true,
      defaultText: "PyTorch's own for the CPU and CUDA 12; pip's for CUDA 13",
      commands: [...MODEL_USERS, "replay", "judge"],
      library: ["model"],
    }),
    precision: choice(
      ["auto", "f32", "f16", "bf16"],
      "Precision of the learner. auto goes by the device, the weights and a trial: docs/gpu.md#precision-of-the-learner.",
      { default: "auto", commands: ["sft", "train", "replay"] },
    ),
    hfWeights: text("Hugging Face folder of the same model, for the learner's weights.", {
      accepts: "a path",
      defaultText: "the model file",
      commands: ["sft", "train", "replay"],
    }),
    microBatchTokens: whole(64, MANY, "Tokens in one pass of the learner; fewer need less memory.", {
      bySize: { tiny: 4096, small: 4096 },
      defaultText: (bySize) => `${bySize}; while training on CUDA up to 65536, as many as fit easily`,
      run: "changeable",
    }),
    gradientCheckpointing: flag("Recompute activations in the backward pass: less memory, more time.", {
      defaultText: "on if the run would not fit otherwise",
      commands: ["sft", "train", "replay"],
    }),
    releaseWeights: flag("Free the engine's weights too during an update, not only its KV cache.", {
      default: false,
      commands: ["train"],
    }),
    maxMismatch: real(
      0,
      100,
      "Stop when the log-probabilities of engine and learner differ by more than this on average.",
      {
        defaultText: "none; an effective sample size below half of the tokens stops the run",
        commands: ["train"],
      },
    ),
  }),
});

type Own = typeof learnerOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}

/**
 * What several ranks of a learner do without. native/learner/launch.py says the rest, once there is a command to run.
 *
 * @throws UsageError where another option is given that ranks cannot have
 */
export function checkLaunch({
  learnerLaunch,
  learner,
  learnerLifetime,
}: Partial<Pick<Config, "learnerLaunch" | "learner" | "learnerLifetime">>): void {
  if (learnerLaunch === undefined) return;
  if (learner === "unsloth") {
    throw new UsageError(
      "--learner-launch starts several processes for an update, and Unsloth computes in one; use --learner peft",
    );
  }
  if (learnerLifetime === "offload") {
    throw new UsageError(
      "--learner-launch: with several processes the learner does not move off the GPUs between updates; use --learner-lifetime step in place of offload",
    );
  }
}

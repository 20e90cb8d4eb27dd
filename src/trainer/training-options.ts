/** Options of runs, and of their updates. Part of options.ts. */
import { declareOptions } from "../core/config/config.js";
import { choice, inGroup, list, real, shares, text, whole } from "../core/config/option.js";
import { presetNames } from "./presets.js";

const MANY = Number.MAX_SAFE_INTEGER;

/** Defaults of `sft`: imitation by an adapter takes a higher rate than RL, or than all weights do. */
export const IMITATION = { learningRate: { tiny: 3e-3, small: 2e-4, large: 1e-4 }, maxGradNorm: 1 } as const;

// Defaults of tiny models lift one of 4 million parameters within 10 steps (docs/tiny-model.md says why these); those of
// small and large ones are ART's for models of 0.5 and 3 billion parameters, with larger groups.
export const runOptions = declareOptions({
  ...inGroup("Runs and training", ["train"], {
    project: text("Folder of runs in the home folder.", {
      defaultText: { other: "the task's name", eval: "any" },
      commands: [
        "rollout",
        "train",
        "eval",
        "view",
        "report",
        "export",
        "rollouts",
        "metrics",
        "replay",
        "serve",
        "chat",
      ],
      first: ["eval"],
    }),
    run: text("Name of the run; rollouts, metrics and replay also take PROJECT/NAME or a folder.", {
      defaultText: {
        other: "the newest run that has finished a step, of the given task first",
        train: "the model's name",
        rollouts: "the newest run",
      },
      commands: ["rollout", "train", "eval", "export", "rollouts", "metrics", "replay"],
      first: ["demo", "train", "eval", "export"],
    }),
    steps: whole(1, MANY, "Steps in all; a larger number continues a finished run.", {
      bySize: { tiny: 10, small: 50 },
      first: ["demo", "train"],
      run: "changeable",
    }),
    groupsPerStep: whole(1, MANY, "Scenarios in a step.", {
      bySize: { tiny: 16, small: 8 },
      first: ["train"],
      run: "identity",
    }),
    difficulty: shares(
      "Train only on scenarios that the model solves in this share of rollouts at the start, where they are played for it.",
      { defaultText: "all scenarios", run: "identity" },
    ),
    staleness: whole(
      0,
      64,
      "Steps played ahead: while the learner computes, with the policy of N updates before; 0: in turns. On a GPU it needs another for the learner (--learner-device) or vLLM servers.",
      { default: 0, run: "identity" },
    ),
    preset: choice(
      presetNames,
      "Settings of an experiment of OpenPipe's, which given options override: art-e (--reward shaped) or art-notebook (--reward ruler). Both need a judge.",
      { defaultText: "none" },
    ),
    fork: text("Checkpoint of another run, or LoRA adapter in PEFT's format, to start from.", {
      accepts: "a folder",
    }),
    learningRate: real(0, 1, "Learning rate at first, but for the warm-up.", {
      bySize: { tiny: 1e-3, small: 1e-5, large: 5e-6 },
      defaultText: (bySize) => ({
        other: bySize,
        sft: `${Object.values(IMITATION.learningRate).join(", ")} for an adapter`,
      }),
      commands: ["sft", "train"],
      first: ["sft", "train"],
      run: "identity",
    }),
    finalLearningRate: real(0, 1, "Learning rate of the last step; it falls linearly over all.", {
      bySize: { tiny: 3e-4, small: 1e-5, large: 5e-6 },
      defaultText: (bySize) => `${bySize}; --learning-rate where that is given`,
      run: "identity",
    }),
    warmup: whole(0, MANY, "First steps, of which step k has k / (N + 1) of its learning rate.", {
      bySize: { tiny: 3, small: 3 },
      run: "identity",
    }),
    maxGradNorm: real(0, 1e6, "Gradients with a larger norm are scaled down to it.", {
      bySize: { tiny: 1, small: 0.1 },
      defaultText: (bySize) => ({ other: bySize, sft: String(IMITATION.maxGradNorm) }),
      commands: ["sft", "train"],
      run: "identity",
    }),
    control: choice(["none", "random-reward"], "An experiment that must not learn: fair coins in place of rewards.", {
      default: "none",
      run: "identity",
    }),
    validateEvery: whole(0, MANY, "Steps between two validations; 0: only at the start and the end.", {
      bySize: { tiny: 10, small: 10 },
      run: "changeable",
    }),
    validateN: whole(0, MANY, "Test scenarios of a validation, always the same; 0: none, and no best checkpoint.", {
      bySize: { tiny: 100, small: 50 },
      run: "identity",
    }),
    track: list(
      "Trackers that show the run too: tensorboard, wandb (offline without WANDB_MODE or a key). Installed at first use.",
      { defaultText: "none" },
    ),
    keep: whole(
      1,
      MANY,
      "Newest checkpoints to keep, besides the best, a fork's start, and those that the next step is compared with.",
      { default: 1, run: "changeable" },
    ),
  }),
});

type Own = typeof runOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}

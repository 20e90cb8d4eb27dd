/** Options of runs, and of their updates. Part of options.ts. */
import { bySizeText, presetNames } from "./defaults.js";
import { choice, inGroup, list, real, shares, text, whole } from "./option.js";

const MANY = Number.MAX_SAFE_INTEGER;

export const runOptions = {
  ...inGroup("Runs and training", {
    project: text("Folder of runs in the home folder.", { defaultText: { other: "the task's name", eval: "any" } }),
    run: text("Name of the run; rollouts and metrics also take PROJECT/NAME or a folder.", {
      defaultText: { other: "the newest run", train: "the model's name" },
    }),
    steps: whole(1, MANY, "Total number of steps. A larger number than before continues a finished run.", {
      defaultText: bySizeText("steps"),
    }),
    groupsPerStep: whole(1, MANY, "Scenarios in a step.", { defaultText: bySizeText("groupsPerStep") }),
    difficulty: shares(
      "Train only on scenarios of which this share of rollouts succeeds with the model that the run starts from. They are played first; what lies outside is set aside.",
      { defaultText: "all scenarios" },
    ),
    difficultyRollouts: whole(2, 1024, "Rollouts of each scenario for --difficulty.", { defaultText: "--group-size" }),
    preset: choice(
      presetNames,
      "Settings of a known experiment; other given options override them. art-e: OpenPipe's email agent with its graded reward (--reward shaped). art-notebook: its notebook, with RULER (--reward ruler). Both need a judge.",
      { defaultText: "none" },
    ),
    fork: text("Start the run from this checkpoint of another run.", { accepts: "a checkpoint folder" }),
    initAdapter: text(
      "Start the run from this LoRA adapter in PEFT's format, trained by any program (ART's checkpoints, for example).",
      {
        accepts: "a folder",
      },
    ),
    learningRate: real(0, 1, "Learning rate after the warm-up.", { defaultText: bySizeText("learningRate") }),
    finalLearningRate: real(0, 1, "Learning rate of the last step; in between it falls linearly.", {
      defaultText: `${bySizeText("finalLearningRate")}; --learning-rate where that is given`,
    }),
    warmup: whole(0, MANY, "Steps over which the learning rate rises.", { defaultText: bySizeText("warmup") }),
    maxGradNorm: real(0, 1e6, "Gradients with a larger norm are scaled down to it.", {
      defaultText: bySizeText("maxGradNorm"),
    }),
    control: choice(
      ["none", "random-reward"],
      "Experiments that must not learn. random-reward: fair coins in place of rewards. (Another: --learning-rate 0.)",
      { default: "none" },
    ),
    validateEvery: whole(
      0,
      MANY,
      "Steps between two validations on test scenarios; 0: only at the start and the end.",
      {
        defaultText: bySizeText("validateEvery"),
      },
    ),
    validateN: whole(1, MANY, "Test scenarios in a validation, always the same ones.", {
      defaultText: bySizeText("validateN"),
    }),
    track: list(
      "Trackers that show the run too: tensorboard, wandb. Their packages are installed at their first use; wandb stays offline without WANDB_MODE or a key.",
      { defaultText: "none" },
    ),
    keep: whole(
      1,
      MANY,
      "Number of newest checkpoints to keep, besides the best and the one that the next step is compared with.",
      { default: 1 },
    ),
  }),
};

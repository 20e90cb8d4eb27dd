/** Options of the model, and of how it plays. Part of options.ts. */

import { type Config, declareOptions } from "../../core/config/config.js";
import { CONTEXT, ROLLOUTS_AT_ONCE } from "../../core/config/defaults.js";
import { choice, flag, inGroup, list, pairs, real, text, whole } from "../../core/config/option.js";
import type { EngineOptions } from "../../core/engine/engine.js";
import { hone } from "../../core/util/program.js";
import { MODEL_USERS, ofModel } from "../model-users.js";

const MANY = Number.MAX_SAFE_INTEGER;
/** Maximum number of sequences that llama.cpp evaluates at once in one context. */
export const MOST_SEQUENCES = 256;
/** Of a turn by default. */
const SERVER_TURN_SECONDS = 120;
/** Of a server's key, see `keyFor`. */
export const OPENAI_KEY = "OPENAI_API_KEY at https://api.openai.com and its regional hosts; none elsewhere";

const playerOptions = declareOptions({
  ...inGroup("Model and player", ["rollout"], {
    model: text(
      `Model: a name of \`${hone("models")}\`, a Hub repository, hf:REPOSITORY:FILE.gguf, a folder or file.`,
      {
        accepts: "a name or a path",
        commands: [...MODEL_USERS, "init", "check", "models show", "models remove"],
        first: ["check", "rollout", "sft", "train", "pack", "serve", "chat", "logprobs"],
        run: "changeable",
        determined: true,
        file: true,
      },
    ),
    ...ofModel({
      weights: choice(["f16", "bf16", "f32", "q8_0"], "Weights of the model, converted once (GGUF not to q8_0).", {
        defaultText: "bf16 where the model and an NVIDIA card have it, else f16; GGUF: its own",
        commands: [...MODEL_USERS, "check", "models", "models show", "models remove"],
        first: ["train", "pack", "logprobs"],
        run: "changeable",
      }),
      adapter: text("LoRA adapter for the model: a GGUF file, or a folder in PEFT's format.", {
        accepts: "a path",
        defaultText: "none",
        commands: ["rollout", "serve", "chat", "logprobs"],
        first: ["serve", "logprobs"],
      }),
    }),
    checkpoint: list("Checkpoint of a run: latest, best, base, or a number; eval takes several, and RUN@best.", {
      defaultText: { other: "best", export: "best, or latest where the base is", rollout: "none", eval: "latest" },
      commands: ["rollout", "eval", "export", "serve", "chat"],
      first: ["rollout", "eval", "export", "serve", "chat"],
    }),
    versus: list(
      "Other players for the same scenarios: models as --model names them, MODEL@URL (an OpenAI-compatible API), expert. NAME=... names the column.",
      { defaultText: "none", commands: ["eval"], first: ["eval"] },
    ),
    fresh: flag("Leave out the scenarios of the run's validations, by which its best checkpoint was chosen.", {
      default: false,
      commands: ["eval"],
      first: ["eval"],
    }),
    ...ofModel({
      gpu: choice(
        ["auto", "cuda", "vulkan", "metal", "off"],
        "Device of engine and learner. auto: the best there is; an NVIDIA GPU that does not work is an error.",
        {
          default: "auto",
          commands: ["rollout", "judge", "sft", "train", "eval", "serve", "chat", "logprobs", "replay", "doctor"],
          first: ["demo", "rollout", "train", "eval", "serve", "chat", "logprobs"],
        },
      ),
      device: text("The GPU: its index in nvidia-smi or its UUID; with Vulkan its index there.", {
        accepts: "an index or a UUID",
        defaultText: "the first visible one (CUDA_VISIBLE_DEVICES)",
        commands: ["rollout", "judge", "sft", "train", "eval", "serve", "chat", "logprobs", "replay", "doctor"],
      }),
      threads: whole(1, 1024, "CPU threads of the engine; the default yields to other programs.", {
        defaultText: "the free cores; on a GPU one for each lane",
        commands: ["rollout", "judge", "sft", "train", "eval", "serve", "chat", "logprobs", "replay", "doctor"],
        first: ["demo", "logprobs"],
      }),
      engine: choice(
        ["llama.cpp", "vllm"],
        "What computes the model's tokens. vllm: the servers of --engine-url, or one that hone starts (docs/vllm.md).",
        {
          default: "llama.cpp",
          commands: ["rollout", "train", "eval", "doctor"],
          first: ["doctor"],
        },
      ),
      decoder: choice(
        ["llama", "own"],
        "Whose graph computes on llama.cpp's libraries. own: hone's, where it can (docs/engine.md#two-decoders).",
        { default: "llama", commands: ["rollout", "train", "eval", "serve", "chat", "logprobs"] },
      ),
      engineUrl: list("vLLM servers that run already, as http://HOST:8000.", {
        accepts: "URLs",
        defaultText: "hone starts a server on this machine",
        commands: ["rollout", "train", "eval", "doctor"],
      }),
      engineAdapters: text("Folder for adapters that vLLM servers see under the same path.", {
        accepts: "a path",
        defaultText: "engine-adapters in --home",
        commands: ["rollout", "train", "eval", "doctor"],
      }),
      enginePython: text("Python with vLLM, for the server that hone starts.", {
        accepts: "a path",
        defaultText: "hone's own, installed at first use",
        commands: ["rollout", "train", "eval", "doctor"],
      }),
      engineMemory: real(0.05, 0.95, "Share of the GPU's memory for the vLLM server that hone starts.", {
        default: 0.5,
        commands: ["rollout", "train", "eval", "doctor"],
      }),
      context: whole(16, MANY, "Tokens of a conversation at most, including the prompt.", {
        defaultText: `${CONTEXT}, or the model's trained context if that is less`,
        commands: ["check", "rollout", "train", "eval", "serve", "chat", "doctor"],
        first: ["check", "serve", "chat"],
        run: "identity",
        determined: true,
      }),
    }),
    playerUrl: text("OpenAI-compatible API of a model that plays instead.", {
      accepts: "a URL",
      first: ["rollout"],
    }),
    playerModel: text("The model's name at --player-url.", { first: ["rollout"] }),
    playerKey: text("Key for --player-url, or for the server of --versus.", {
      secret: true,
      defaultText: OPENAI_KEY,
      commands: ["rollout", "eval"],
    }),
    expert: flag("Let the task's scripted expert play instead of a model.", { default: false, first: ["rollout"] }),
    mistakes: real(0, 1, "Share of rollouts in which the expert errs.", { default: 0 }),
  }),
  ...inGroup("Rollouts and sampling", ["rollout", "train", "eval"], {
    ...ofModel({
      concurrency: whole(1, MOST_SEQUENCES, "Number of concurrent rollouts.", {
        defaultText: {
          other: String(ROLLOUTS_AT_ONCE.cpu),
          train: `at most ${ROLLOUTS_AT_ONCE.cpu} on a CPU and ${ROLLOUTS_AT_ONCE.gpu} on a GPU, fewer where memory is short`,
        },
        commands: ["rollout", "train", "eval", "serve"],
        first: ["serve"],
      }),
      maxTurns: whole(1, 1000, "Assistant turns of a rollout at most.", {
        default: 10,
        commands: ["check", "rollout", "train", "eval", "chat", "play"],
        first: ["play"],
        run: "identity",
      }),
      maxTokens: whole(1, MANY, "Tokens of a turn at most.", {
        bySize: { tiny: 256, small: 2048 },
        defaultText: (bySize) => ({ other: "2048; of APIs the server's own", train: bySize }),
        commands: ["rollout", "train", "eval", "chat"],
        first: ["train"],
        run: "identity",
      }),
      temperature: real(0, 10, "Sampling temperature; 0 takes the most likely token.", {
        defaultText: { other: "1; of APIs the server's own", train: "1" },
        commands: ["rollout", "train", "eval", "chat"],
        first: ["rollout", "eval", "chat"],
        run: "identity",
        determined: true,
      }),
      topK: whole(0, MANY, "Sample from the k most likely tokens only; 0 is off.", {
        default: 0,
        commands: ["rollout", "chat"],
      }),
      topP: real(0, 1, "Sample from the likeliest tokens of this total probability; 1 is off.", {
        default: 1,
        commands: ["rollout", "chat"],
      }),
      minP: real(0, 1, "Drop tokens less likely than this share of the most likely one; 0 is off.", {
        default: 0,
        commands: ["rollout", "chat"],
      }),
      toolFormat: choice(
        ["auto", "hermes", "llama3", "mistral", "granite", "pythonic", "xlam", "phi4", "qwen3coder", "lfm2", "json"],
        "Format of the model's tool calls; auto is that of its chat template. See docs/tool-formats.md.",
        {
          default: "auto",
          commands: ["rollout", "sft", "train", "eval", "serve", "chat"],
          run: "identity",
        },
      ),
      templateArg: pairs("Variable of the model's chat template, such as enable_thinking=false; may be repeated.", {
        defaultText: "none",
        commands: ["rollout", "sft", "train", "eval", "serve", "chat"],
        run: "identity",
      }),
      maxThinkingTokens: whole(1, MANY, "Tokens of a turn that may be thoughts (<think>); longer ones are closed.", {
        defaultText: "only --max-tokens",
        commands: ["rollout", "train", "eval", "serve", "chat"],
        run: "identity",
      }),
      onToolError: choice(
        ["observe", "stop"],
        "After a malformed call, an unknown tool or wrong arguments the model reads an error (observe), or the rollout ends (stop, as in ART).",
        { default: "observe", run: "identity" },
      ),
      offForm: choice(
        ["keep", "zero", "prevent"],
        "Where an agent asked for a form (response_format, strict tools, tool_choice) and the model writes another: keep the task's reward, make it zero, or prevent it by sampling and training under a grammar.",
        { default: "keep", run: "identity" },
      ),
      turnTimeout: real(0.1, 86_400, "Seconds one turn may take of the engine.", {
        defaultText: `${SERVER_TURN_SECONDS} on a server; none on hone's own engine`,
        commands: ["rollout", "train", "eval", "chat"],
      }),
      toolTimeout: real(0.1, 86_400, "Seconds one tool call may take.", {
        default: 30,
        commands: ["check", "rollout", "train", "eval", "chat", "play"],
      }),
      rolloutTimeout: real(0.1, 86_400, "Seconds one rollout may take.", { default: 600 }),
      maxExceptions: real(0, MANY, "Failed rollouts to tolerate; below 1 a share of all.", {
        default: 0,
      }),
    }),
  }),
});

type Own = typeof playerOptions;
declare module "../../core/config/config.js" {
  interface OptionTable extends Own {}
}

type Limiting =
  | "maxTurns"
  | "turnTimeout"
  | "toolTimeout"
  | "rolloutTimeout"
  | "taskTimeout"
  | "onToolError"
  | "offForm";

/** Seconds of a turn, by the options. @param own whether hone's engine plays: it ends each turn, at the latest by its tokens */
export const turnSecondsOf = ({ turnTimeout }: Pick<Config, "turnTimeout">, own: boolean) =>
  turnTimeout ?? (own ? Number.POSITIVE_INFINITY : SERVER_TURN_SECONDS);

/** What a rollout may take, by the options. @param engine that plays; undefined: another player */
export const limitsOf = (
  config: Pick<Config, Limiting> & { readonly maxTokens: number },
  engine: EngineOptions | undefined,
) => ({
  maxTurns: config.maxTurns,
  maxTokens: config.maxTokens,
  turnSeconds: turnSecondsOf(config, engine !== undefined && engine.kind !== "vllm"),
  toolSeconds: config.toolTimeout,
  rolloutSeconds: config.rolloutTimeout,
  taskSeconds: config.taskTimeout,
  onToolError: config.onToolError,
  offForm: config.offForm,
});

/**
 * Every command, in the order `yarn hone --help` lists them: what the list says of it, and where its code is, which is loaded
 * when the command is chosen. Nothing else is loaded with this table, so that the list is there at once.
 */
import type { Command, CommandCode } from "../command.js";

interface Entry<N extends string> {
  /** One line. */
  readonly summary: string;
  /** Words after the command's name which, with it, work unchanged after `yarn hone build-db`. */
  readonly example: string;
  load(): Promise<CommandCode<N>>;
}

/** The types check that an entry's code is that of its name. */
const tableOf = <const N extends string>(
  entries: { readonly [name in N]: Entry<name> },
): Readonly<Record<string, Entry<string>>> => entries;

export const commands = tableOf({
  demo: {
    summary: "See reinforcement learning work: train hone's tiny model and compare it before and after.",
    example: "",
    load: async () => (await import("./email/demo.js")).demoCommand,
  },
  "build-db": {
    summary: "Build the mail database: synthetic mail, your own, or the Enron corpus.",
    example: "--from maildir/ --questions questions.jsonl",
    load: async () => (await import("./email/build-db.js")).buildDbCommand,
  },
  scenarios: {
    summary: "List the questions of a mail database; --show adds answers and evidence.",
    example: "--n 3 --show",
    load: async () => (await import("./email/scenarios.js")).scenariosCommand,
  },
  "scenarios generate": {
    summary:
      "Make scenarios from a mail database, a folder of documents, an SQLite file or MCP servers, by a model behind an API.",
    example: "--documents docs --judge-url http://127.0.0.1:8080/v1 --judge-model NAME --n 20",
    load: async () => (await import("./scenarios-generate.js")).generateCommand,
  },
  "scenarios import": {
    summary:
      "Make scenarios, and trajectories to imitate, from an agent's logs: OpenTelemetry, Langfuse, OpenAI's JSONL.",
    example: "spans.jsonl --out imported --mask all",
    load: async () => (await import("./scenarios-import.js")).importCommand,
  },
  "scenarios review": {
    summary: "Look scenarios over in the browser of this machine: keep, drop and edit them.",
    example: "scenarios.jsonl",
    load: async () => (await import("./scenarios-review.js")).reviewCommand,
  },
  search: {
    summary: "Search one person's mail, as the agent's tool does.",
    example: "--inbox ADDRESS --keywords budget,meeting",
    load: async () => (await import("./email/search.js")).searchCommand,
  },
  read: {
    summary: "Read one mail of one person.",
    example: "--inbox ADDRESS --id MESSAGE_ID",
    load: async () => (await import("./email/read.js")).readCommand,
  },
  init: {
    summary: "Make a new project in an empty folder: a task, ten scenarios, and the commands to train on it.",
    example: "my-task --package hone-rl-hone-0.1.0.tgz --yes",
    load: async () => (await import("./init.js")).initCommand,
  },
  check: {
    summary:
      "Find defects of a task that make training useless: in its reward, tools, splits, prompts and MCP servers.",
    example: "examples/arithmetic.ts",
    load: async () => (await import("./check.js")).checkCommand,
  },
  rollout: {
    summary: "Play scenarios and report the results.",
    example: "--expert --n 1 --group-size 1 --show",
    load: async () => (await import("./rollout.js")).rolloutCommand,
  },
  judge: {
    summary: "Let a judge score rollouts (RULER) or decide which answers are right; here or behind an API.",
    example: "rollouts.jsonl --judge-url http://127.0.0.1:8080/v1 --judge-model NAME --out judged.jsonl",
    load: async () => (await import("./judge.js")).judgeCommand,
  },
  sft: {
    summary: "Learn from a trajectory file by imitation (supervised fine-tuning).",
    example: "rollouts.jsonl --model model.gguf --epochs 2",
    load: async () => (await import("./sft.js")).sftCommand,
  },
  train: {
    summary: "Train a model on a task by reinforcement learning; run it again to resume.",
    example: "--steps 15",
    load: async () => (await import("./train.js")).trainCommand,
  },
  eval: {
    summary: "Evaluate checkpoints, models and APIs on the same scenarios: success, paired differences, tokens, cost.",
    example: "--checkpoint base,latest",
    load: async () => (await import("./eval.js")).evalCommand,
  },
  runs: {
    summary: "List the runs of training, the newest first.",
    example: "",
    load: async () => (await import("./runs.js")).runsCommand,
  },
  view: {
    summary: "Show runs as a web page on this machine, which follows running ones.",
    example: "",
    load: async () => (await import("./view.js")).viewCommand,
  },
  report: {
    summary: "Write runs as one HTML file that opens from disk: all metrics and a sample of the rollouts.",
    example: "--out report.html",
    load: async () => (await import("./report.js")).reportCommand,
  },
  export: {
    summary: "Write a trained model for other programs (PEFT, GGUF, safetensors, Ollama), or push it to the Hub.",
    example: "--to gguf --type q8_0",
    load: async () => (await import("./export.js")).exportCommand,
  },
  pack: {
    summary: "Pack hone with all that it needs, including models, for a machine without a network.",
    example: "--for linux-x64-cuda13 --model qwen2.5-1.5b --out hone-pack",
    load: async () => (await import("./pack.js")).packCommand,
  },
  unpack: {
    summary: "Unpack hone from a pack; unpack.mjs in its folder does the same where hone is not installed.",
    example: "hone-pack --into hone",
    load: async () => (await import("./pack.js")).unpackCommand,
  },
  rollouts: {
    summary: "List the rollouts that a run keeps, print their conversations, or write them to a trajectory file.",
    example: "--step 12 --failed --show",
    load: async () => (await import("./rollouts.js")).rolloutsCommand,
  },
  replay: {
    summary: "Recompute steps of a run from what is stored: rewards, advantages, batch, update; say what differs.",
    example: "--step 7",
    load: async () => (await import("./replay.js")).replayCommand,
  },
  metrics: {
    summary: "Print the metrics of a run's steps as a table, or all of them as CSV.",
    example: "--csv",
    load: async () => (await import("./metrics.js")).metricsCommand,
  },
  models: {
    summary:
      "List the named models and those on this machine: the smallest card that trains each, and whether this machine does.",
    example: "",
    load: async () => (await import("./models.js")).listCommand,
  },
  "models pull": {
    summary: "Download a model and make its GGUF file, or update it to the newest commit of its repository.",
    example: "Qwen/Qwen2.5-0.5B-Instruct",
    load: async () => (await import("./models.js")).pullCommand,
  },
  "models show": {
    summary:
      "Show a model's source, licence, what of it was tested, and its files on this machine, without network access.",
    example: "qwen2.5-0.5b",
    load: async () => (await import("./models.js")).showCommand,
  },
  "models remove": {
    summary: "Remove a model's downloads (for all programs that share the cache) and its converted files.",
    example: "qwen2.5-0.5b",
    load: async () => (await import("./models.js")).removeCommand,
  },
  serve: {
    summary: "Serve a run's model and its base model by OpenAI's API on this machine.",
    example: "--model tiny",
    load: async () => (await import("./serve.js")).serveCommand,
  },
  chat: {
    summary: "Talk to a run's model: the task's tools run, and calls are shown.",
    example: "--compare base,best",
    load: async () => (await import("./chat.js")).chatCommand,
  },
  play: {
    summary: "Play one scenario by hand: call the tools yourself and see the reward.",
    example: "--split train",
    load: async () => (await import("./play.js")).playCommand,
  },
  exec: {
    summary: "Run your program that uses hone as a library: TypeScript or JavaScript.",
    example: "examples/train.ts 10",
    load: async () => (await import("./exec.js")).execCommand,
  },
  logprobs: {
    summary: "Print log-probabilities of given token ids, to compare the engine with other programs.",
    example: "--model tiny --tokens ids.json --json",
    load: async () => (await import("./logprobs.js")).logprobsCommand,
  },
  doctor: {
    summary: "Check this machine: drivers, libraries, Python, and a small training step on the device.",
    example: "",
    load: async () => (await import("./doctor.js")).doctorCommand,
  },
});

/** The commands that begin with this word; all of them where none does. */
export async function loadCommands(word = ""): Promise<readonly Command[]> {
  // A config file may have options of the email task's commands, whatever command is run.
  const [{ hone }] = await Promise.all([import("../../core/util/program.js"), import("./email/email-options.js")]);
  const below = Object.keys(commands).filter((name) => name.split(" ")[0] === word);
  const chosen = Object.entries(commands).filter(([name]) => below.length === 0 || below.includes(name));
  return await Promise.all(
    chosen.map(async ([name, { summary, example, load }]) => ({
      ...(await load()),
      summary,
      example: `${hone(name)} ${example}`.trimEnd(),
    })),
  );
}

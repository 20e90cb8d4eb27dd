/**
 * Every command, in the order `yarn hone --help` lists them. A command's file is loaded when its word is given: all of them
 * take half a second.
 */
import type { Command } from "../config/index.js";
// Options of the email task's commands, which a config file may have whatever command is run.
import "./email/options.js";

const byWord: Readonly<Record<string, () => Promise<readonly Command[]>>> = {
  demo: async () => [(await import("./email/demo.js")).demoCommand],
  "build-db": async () => [(await import("./email/build-db.js")).buildDbCommand],
  scenarios: async () => [
    (await import("./email/scenarios.js")).scenariosCommand,
    (await import("./scenarios-generate.js")).generateCommand,
    (await import("./scenarios-import.js")).importCommand,
    (await import("./scenarios-review.js")).reviewCommand,
  ],
  search: async () => [(await import("./email/search.js")).searchCommand],
  read: async () => [(await import("./email/read.js")).readCommand],
  init: async () => [(await import("./init.js")).initCommand],
  check: async () => [(await import("./check.js")).checkCommand],
  rollout: async () => [(await import("./rollout.js")).rolloutCommand],
  judge: async () => [(await import("./judge.js")).judgeCommand],
  sft: async () => [(await import("./sft.js")).sftCommand],
  train: async () => [(await import("./train.js")).trainCommand],
  eval: async () => [(await import("./eval.js")).evalCommand],
  runs: async () => [(await import("./runs.js")).runsCommand],
  view: async () => [(await import("./view.js")).viewCommand],
  report: async () => [(await import("./report.js")).reportCommand],
  export: async () => [(await import("./export.js")).exportCommand],
  pack: async () => [(await import("./pack.js")).packCommand],
  unpack: async () => [(await import("./pack.js")).unpackCommand],
  rollouts: async () => [(await import("./rollouts.js")).rolloutsCommand],
  replay: async () => [(await import("./replay.js")).replayCommand],
  metrics: async () => [(await import("./metrics.js")).metricsCommand],
  models: async () => (await import("./models.js")).modelsCommands,
  serve: async () => [(await import("./serve.js")).serveCommand],
  chat: async () => [(await import("./chat.js")).chatCommand],
  play: async () => [(await import("./play.js")).playCommand],
  exec: async () => [(await import("./exec.js")).execCommand],
  logprobs: async () => [(await import("./logprobs.js")).logprobsCommand],
  doctor: async () => [(await import("./doctor.js")).doctorCommand],
};

/** The commands that begin with this word; all of them where none does. */
export async function loadCommands(word = ""): Promise<readonly Command[]> {
  const load = Object.hasOwn(byWord, word) ? byWord[word] : undefined;
  if (load) return await load();
  return (await Promise.all(Object.values(byWord).map((each) => each()))).flat();
}

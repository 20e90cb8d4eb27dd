/**
 * `yarn start`: reinforcement learning from end to end, with only this repository. Builds the synthetic mailbox, trains
 * hone's own tiny model on it, and shows the difference on held-out questions.
 */
import { existsSync } from "node:fs";
import { type GivenOptions, givenOf, optionsOf, withDefaults } from "../../../core/config/config.js";
import { DEFAULT_MODEL } from "../../../core/config/defaults.js";
import type { Trajectory } from "../../../core/rollout/trajectory.js";
import { hone } from "../../../core/util/program.js";
import { buildMailDatabase } from "../../../email/building/build.js";
import { mailDatabasePath } from "../../../email/database.js";
import { emailTask } from "../../../email/email-task.js";
import { evalText } from "../../../insight/report/eval-report.js";
import { playedText } from "../../../insight/report/played.js";
import { compact } from "../../../insight/report/progress-line.js";
import { prepareMachine } from "../../../machine/python/machine.js";
import { pythonIsReady } from "../../../machine/python/python.js";
import { givenForTask, resolveTaskOptions } from "../../../scenarios/task-options.js";
import { planRun } from "../../../trainer/run.js";
import { type TrainConfig, trainOptions } from "../../../trainer/train-options.js";
import { type CommandIo, defineCommand } from "../../command.js";
import { evaluateShown } from "../eval.js";
import { trainShown } from "../train.js";

const RUN = "demo";
/** Lines of at most 120 characters. */
const TAUGHT = [
  "The tiny model was shown how to find a mail, and how to answer from a mail that it is told: never one after the other.",
  "Answering a question takes both. Nothing but the reward of whole rollouts will teach it that.",
].join("\n");
/** Number of held-out questions in the table; none of them was used to choose the best checkpoint. */
const HELD_OUT = 100;
/** Of hone's own model, which mends no call that did not run: what comes after one costs time and teaches little. */
const OWN = { onToolError: "stop" } as const;
const WORLD = { kind: "synthetic", seed: 1, mailboxes: 300, names: "default" } as const;

async function ensureMail(config: TrainConfig, io: CommandIo): Promise<void> {
  const { db: given } = resolveTaskOptions(emailTask, givenForTask(io.given));
  const db = mailDatabasePath({ home: config.home, db: given as string | undefined });
  if (existsSync(db)) return;
  const { imported, scenarios } = await buildMailDatabase({ db, source: WORLD, signal: io.signal });
  io.log(
    `${db}: ${compact(imported)} invented mails, ${compact(scenarios.train)} questions to train on, ${scenarios.test} to test on`,
  );
}

const isOwn = ({ model = DEFAULT_MODEL }: GivenOptions) => model === DEFAULT_MODEL;

/** The demo's defaults, and those of hone's own model unless another was given. */
function demoDefaults(config: TrainConfig, given: GivenOptions): { config: TrainConfig; given: GivenOptions } {
  const own = isOwn(given) && given.onToolError === undefined ? OWN : {};
  return { config: { ...config, ...own, run: config.run ?? RUN }, given: { ...given, ...own } };
}

async function announce(config: TrainConfig, io: CommandIo): Promise<void> {
  // Done first, with messages: on an NVIDIA GPU the engine may need libraries that are installed with PyTorch.
  const cuda = await prepareMachine(config, io.log, true);
  const installed = pythonIsReady({ cpu: !cuda });
  const { settings } = await planRun(trainDemoOptions(config, io));
  io.log(
    [
      ...(isOwn(io.given) ? [TAUGHT] : []),
      `Reinforcement learning: ${settings.steps} steps of ${settings.groupsPerStep} questions, ${settings.groupSize} rollouts of each.`,
      `Then it answers ${HELD_OUT} other questions, untrained and trained.`,
      `${isOwn(io.given) ? "That takes minutes on two CPU cores. " : ""}Ctrl-C keeps what is done; the same command goes on.`,
      ...(config.python || installed ? [] : ["First PyTorch is installed for the learner: a few hundred MB, once."]),
    ].join("\n"),
  );
}

const trainDemoOptions = (config: TrainConfig, io: CommandIo) => ({
  ...givenOf(io.given, trainOptions),
  run: config.run,
});

async function compare(config: TrainConfig, io: CommandIo) {
  const played = new Map<string, Trajectory[]>();
  const asked = { ...io.given, run: config.run, checkpoint: ["base", "best"], fresh: true, split: "test", n: HELD_OUT };
  const { matrix } = await evaluateShown(
    withDefaults(optionsOf("eval"), asked as GivenOptions),
    io,
    (one, checkpoint) => played.set(checkpoint, [...(played.get(checkpoint) ?? []), one]),
  );
  const evaluations = matrix.columns.flatMap(({ name, title, step, result }) =>
    result ? [{ checkpoint: name, title, step, ...result.figures }] : [],
  );
  return { evaluations, base: played.get("base") ?? [], best: played.get("best") ?? [] };
}

/** A question that the trained model solves and the base model does not; otherwise the first one. */
function example(base: readonly Trajectory[], best: readonly Trajectory[]) {
  const before = new Map(base.map((one) => [one.scenario.id, one]));
  const pairs = best.flatMap((after) => {
    const one = before.get(after.scenario.id);
    return one ? [{ before: one, after }] : [];
  });
  return pairs.find(({ before, after }) => !before.reward.success && after.reward.success) ?? pairs[0];
}

export const demoCommand = defineCommand({
  name: "demo",
  like: "train",
  // It is the same in a project with a task of its own.
  configFile: false,
  async run(evaluated, plain) {
    const { config, given } = demoDefaults(evaluated, plain.given);
    const io = { ...plain, given };
    await ensureMail(config, io);
    await announce(config, io);
    const { adapter, folder, seconds, steps } = await trainShown(trainDemoOptions(config, io), io);
    const { evaluations, base, best } = await compare(config, io);
    io.log(
      `\n${HELD_OUT} questions about other people's mailboxes, none of them seen in training:\n\n${evalText(evaluations)}\n`,
    );
    const pair = example(base, best);
    if (pair) {
      io.log(`One of them: ${pair.after.scenario.question}`);
      io.log(`\nbefore training\n${playedText(pair.before)}`);
      io.log(`\nafter training\n${playedText(pair.after)}\n`);
    }
    io.log(adapter ? `The trained adapter: ${adapter}` : "No checkpoint was better than the model before training.");
    io.log(`The run, its log and its metrics: ${folder}`);
    io.log(
      `Go on: \`${hone("chat")} --compare base,best\` talks to both, \`${hone("report")} --out report.html\` shows the run, \`${hone("serve")}\` serves the model.`,
    );
    return { run: config.run, folder, steps, seconds, evaluations, adapter };
  },
});

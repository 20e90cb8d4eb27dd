/** What fits where a training begins with nothing solved and all rewards equal, as commands to type. */
import { type GivenOptions, type OptionName, optionsOf } from "../../core/config/config.js";
import type { AnyTask } from "../../core/task/task.js";
import { hone } from "../../core/util/program.js";
import { typed } from "../typed.js";
import { TINY_KNOWS } from "./unknown-tools.js";
import type { UnreadCalls } from "./unread-calls.js";

export interface Unsolved {
  /** Options of the training as they were given. */
  readonly given: GivenOptions;
  /** The model as it is named, and the run. */
  readonly model: string;
  readonly run: string;
  /** As `--task` names it. */
  readonly reference: string;
  readonly task: Pick<AnyTask, "expert" | "rollout">;
  readonly unread: UnreadCalls;
  /** Turns of an agent that had not the form that it asked for. */
  readonly offForm: number;
}

/** Options of a task and its tools, which whoever plays it needs. */
const OF_TASK: readonly OptionName[] = [
  ...(["home", "db", "task", "set", "scenarios", "map", "testShare", "seed"] as const),
  ...(["mcp", "mcpAllow", "mcpDeny"] as const),
];
/** Options of `sft` that mean something else there than in training. */
const OWN: readonly OptionName[] = ["seed", "learningRate", "maxGradNorm", "json", "learnerLaunch"];
/** Rollouts that are imitated; as many taught SmolLM2 the form of the email task's calls (docs/results.md). */
const IMITATED = "--split train --n 160 --group-size 1";

/** A reason, and the commands in their order. */
type Means = readonly [reason: string, ...commands: string[]];

function meansOf({ given: asked, model, run, reference, task, unread, offForm }: Unsolved): Means[] {
  const isBuiltIn = reference === "email";
  const given = { ...asked, model, ...(isBuiltIn ? {} : { task: reference }) };
  const train = (change: GivenOptions, suffix: string) => {
    const other = { ...change, run: `${run}-${suffix}` };
    // Its reward is a function of a program, which no command has.
    if (asked.reward === "program") {
      const changes = Object.entries(other).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
      return `trainRun({ ...options, ${changes.join(", ")} }, choice)`;
    }
    return `${hone("train")}${typed({ ...given, ...other }, optionsOf("train"))}`;
  };
  const play = (player: string, out: string) =>
    `${hone("rollout")}${typed(given, OF_TASK)} ${player} ${IMITATED} --out ${out}`;
  const forImitation = optionsOf("sft").filter((name) => !OWN.includes(name));
  const imitate = (file: string) => [
    `${hone("sft")} ${file}${typed(given, forImitation)} --out imitated`,
    train({ fork: "imitated" }, "imitated"),
  ];
  const imitation = (): Means => {
    if (task.rollout)
      return [
        "imitation of what a better model wrote, from its logs",
        `${hone("scenarios import")} LOGS --out imported`,
        ...imitate("imported/trajectories.jsonl"),
      ];
    if (task.expert)
      return ["imitation of the task's expert", play("--expert", "expert.jsonl"), ...imitate("expert.jsonl")];
    return [
      "imitation of a better model",
      play("--player-url URL --player-model NAME", "played.jsonl"),
      ...imitate("played.jsonl --successes"),
    ];
  };
  const means: Means[] = [];
  if (model === "tiny" && !isBuiltIn)
    means.push([`another model: ${TINY_KNOWS}`, train({ model: "qwen2.5-0.5b" }, "qwen")]);
  if (unread.text !== undefined)
    means.push([unread.text, ...(unread.format ? [train({ toolFormat: unread.format }, unread.format)] : [])]);
  if (offForm > 0 && given.offForm !== "prevent")
    means.push([
      `${offForm} turns had not the form that the agent asks for; under a grammar they have it`,
      train({ offForm: "prevent" }, "prevent"),
    ]);
  means.push(
    given.fork === undefined
      ? imitation()
      : [`more imitation before this training: further rollouts, or more --epochs of ${hone("sft")}`],
  );
  if (!isBuiltIn)
    means.push([
      `worked examples in the prompt of ${reference}: pairs of user and assistant messages before the question`,
    ]);
  return means;
}

export const unsolvedText = (step: number, about: Unsolved): string =>
  [
    `step ${step}: nothing was solved, and only differences of rewards teach. What fits such a beginning:`,
    ...meansOf(about).map(([reason, ...commands]) =>
      [`- ${reason}${commands.length > 0 ? ":" : ""}`, ...commands.map((one) => `    ${one}`)].join("\n"),
    ),
  ].join("\n");

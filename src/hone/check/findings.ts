/** Finds defects of a task from its declaration and from the rewards of probes. Pure functions. */
import { mean } from "../../core/run/evaluation.js";
import { type AnyTask, type Scenario, toolSchema } from "../../core/task/task.js";
import { isFolderName } from "../../core/util/paths.js";
import type { Probe, Probed } from "./probes.js";

export interface Finding {
  /** An error makes training useless or impossible; a warning should be reviewed. */
  readonly level: "error" | "warning";
  readonly kind:
    | "no_scenarios"
    | "repeated_scenario"
    | "repeated_question"
    | "no_description"
    | "pattern_unchecked"
    | "task_throws"
    | "model_mistake"
    | "unknown_tools"
    | "open_call"
    | "history_rewritten"
    | "option_refused"
    | "reward_constant"
    | "empty_answer_wins"
    | "expert_fails"
    | "tool_failed"
    | "prompt_too_long"
    | "same_prompt"
    | "result_lost"
    | "result_too_long"
    | "name_refused"
    | "server_failed"
    | "tool_left_out"
    | "stray_output";
  readonly message: string;
}

export const error = (kind: Finding["kind"], message: string): Finding => ({ level: "error", kind, message });
export const warning = (kind: Finding["kind"], message: string): Finding => ({ level: "warning", kind, message });

const some = (names: readonly string[]) =>
  `${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`;

/** The content of a scenario without its id and split, to find duplicates. */
function contentOf({ id: _, split: __, ...content }: Scenario): string {
  return JSON.stringify(Object.entries(content).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The runs of a task are kept in a folder of its name. */
export function nameFindings(name: string): Finding[] {
  if (isFolderName(name)) return [];
  const message = `the name "${name}" cannot be a folder's: use letters, digits, ".", "_" and "-", or train with --project NAME`;
  return [warning("name_refused", message)];
}

export function scenarioFindings(scenarios: readonly Scenario[]): Finding[] {
  const findings: Finding[] = [];
  for (const split of ["train", "test"] as const) {
    if (scenarios.some((scenario) => scenario.split === split)) continue;
    findings.push(error("no_scenarios", `the ${split} split has no scenario, and training needs both splits`));
  }
  const trained = new Map(
    scenarios.filter(({ split }) => split === "train").map((scenario) => [contentOf(scenario), scenario.id]),
  );
  const both = scenarios
    .filter(({ split }) => split === "test")
    .flatMap((scenario) => {
      const other = trained.get(contentOf(scenario));
      return other === undefined ? [] : [`${scenario.id} is ${other}`];
    });
  if (both.length > 0) {
    const message = `${both.length} test scenarios are also trained on, so that held-out success says nothing of new ones: ${some(both)}`;
    findings.push(error("repeated_scenario", message));
  }
  const repeated = both.length > 0 ? [] : repeatedQuestions(scenarios);
  if (repeated.length > 0) {
    const message = `${repeated.length} test questions are trained on too, in scenarios with other fields, so that held-out success may say nothing of new ones: ${some(repeated)}`;
    findings.push(warning("repeated_question", message));
  }
  return findings;
}

/** Tests whose question, which tells most scenarios apart, is that of one in training. */
function repeatedQuestions(scenarios: readonly Scenario[]): string[] {
  const questionOf = ({ question }: Scenario) => String(question).trim().replace(/\s+/g, " ");
  const trained = new Map(scenarios.filter(({ split }) => split === "train").map((one) => [questionOf(one), one.id]));
  // A question that many have is an instruction, and what they are about stands in other fields.
  if (2 * new Set(scenarios.map(questionOf)).size < scenarios.length) return [];
  return scenarios
    .filter(({ split, question }) => split === "test" && question)
    .flatMap((one) => {
      const other = trained.get(questionOf(one));
      return other === undefined ? [] : [`${one.id} is that of ${other}`];
    });
}

export function toolFindings(task: Pick<AnyTask, "tools">): Finding[] {
  const bare = task.tools.filter(({ description }) => description.trim() === "").map(({ name }) => name);
  const fields = task.tools.flatMap((tool) => {
    const { properties = {} } = toolSchema(tool).function.parameters as {
      // A JSON Schema may also be true or false.
      properties?: Record<string, { description?: string } | boolean>;
    };
    return Object.entries(properties).flatMap(([name, property]) =>
      typeof property === "object" && property.description ? [] : [`${tool.name}.${name}`],
    );
  });
  const unchecked = task.tools.flatMap(({ name, parameters }) =>
    "unchecked" in parameters ? parameters.unchecked.map((what) => `of the tool ${name} ${what}`) : [],
  );
  return [
    ...unchecked.map((message) => warning("pattern_unchecked", message)),
    ...(bare.length > 0 ? [error("no_description", `tools without a description: ${some(bare)}`)] : []),
    ...(fields.length > 0
      ? [warning("no_description", `arguments without a description (zod's \`.describe()\`): ${some(fields)}`)]
      : []),
  ];
}

const show = (value: number) => String(Number(value.toFixed(3)));

/** Whether an empty answer may well be right: a number, a truth value or one of an enum, which a question can ask for. */
const mayBeRight = (answer: Readonly<Record<string, unknown>> = {}) =>
  Object.values(answer).some((value) => value !== "" && typeof value !== "object");

/** Rollouts in which a tool failed, or other code of the task threw: the same error in several scenarios is reported once. */
function failureFindings(probed: readonly Probed[]): Finding[] {
  const findings = new Map<string, { kind: Finding["kind"]; text: string; where: Probed[] }>();
  for (const one of probed) {
    const { error: thrown, outcome, scenario } = one;
    const text = (outcome?.end === "tool_failure" ? outcome.reason : thrown)?.split("\n")[0];
    if (text === undefined) continue;
    const kind = thrown === undefined ? "tool_failed" : "task_throws";
    const key = `${kind} ${text.replaceAll(scenario, "")}`;
    const same = findings.get(key) ?? { kind, text, where: [] };
    same.where.push(one);
    findings.set(key, same);
  }
  return [...findings.values()].map(({ kind, text, where }) => {
    const rollouts = `${where.length} of ${probed.length} rollouts (${where[0]?.probe}, scenario ${where[0]?.scenario})`;
    return error(kind, kind === "tool_failed" ? `${text}; in ${rollouts}` : `the task threw in ${rollouts}: ${text}`);
  });
}

export function rewardFindings(probed: readonly Probed[]): Finding[] {
  const findings = failureFindings(probed);
  const played = probed.flatMap(({ probe, scenario, outcome }) =>
    // What a failing tool ended says nothing of the reward.
    outcome && outcome.end !== "tool_failure" ? [{ probe, scenario, answer: outcome.answer, ...outcome.reward }] : [],
  );
  const of = (probe: Probe) => played.filter((one) => one.probe === probe);
  const [expert, empty] = [of("expert"), of("empty answer")];
  const [first] = played;
  const without = probed.some(({ probe }) => probe === "expert")
    ? ""
    : "; give the task an expert, and check sees whether a right answer earns more";
  if (first && played.length > 1 && played.every(({ reward }) => reward === first.reward)) {
    const message = `every rollout earned ${show(first.reward)}${expert.length > 0 ? ", the expert's too" : without}: only differences teach`;
    findings.push((expert.length > 0 ? error : warning)("reward_constant", message));
  } else if (empty.length > 0) {
    const won = empty.filter(({ success }) => success);
    const earned = mean(empty.map(({ reward }) => reward));
    const pays = expert.length > 0 && earned >= mean(expert.map(({ reward }) => reward));
    const written = `an empty answer${empty[0]?.answer ? `, ${JSON.stringify(empty[0].answer)},` : ""}`;
    if (pays) {
      const message = `${written} earns ${show(earned)} on average, no less than the expert`;
      findings.push(error("empty_answer_wins", message));
    } else if (won.length > 0) {
      const names = some(won.map(({ scenario }) => scenario));
      const message = `${written} solves ${won.length} of ${empty.length} scenarios; is it right there? ${names}`;
      findings.push((won.every(({ answer }) => mayBeRight(answer)) ? warning : error)("empty_answer_wins", message));
    }
  }
  const failed = expert.filter(({ success }) => !success);
  if (failed.length > 0) {
    const names = failed.map(({ scenario }) => scenario);
    const message = `the expert does not solve ${failed.length} of ${expert.length} scenarios: ${some(names)}`;
    findings.push(warning("expert_fails", message));
  }
  return findings;
}

/** What the model is given first. */
export interface Prompted {
  readonly scenario: Pick<Scenario, "id" | "question">;
  readonly text: string;
  readonly tokens: number;
}

export function promptFindings(prompts: readonly Prompted[], context: number): Finding[] {
  const long = prompts.filter(({ tokens }) => tokens >= context).sort((a, b) => b.tokens - a.tokens);
  const names = long.map(({ scenario, tokens }) => `${scenario.id} ${tokens}`);
  const kinds = (of: (prompt: Prompted) => unknown) => new Set(prompts.map(of)).size;
  return [
    ...(long.length > 0
      ? [
          error(
            "prompt_too_long",
            `${long.length} of ${prompts.length} prompts leave no room in a context of ${context} tokens: ${some(names)}`,
          ),
        ]
      : []),
    ...(kinds(({ scenario }) => scenario.question) > 1 && kinds(({ text }) => text) === 1
      ? [
          warning(
            "same_prompt",
            `${prompts.length} scenarios with different questions have the same prompt: what should tell the model which it is?`,
          ),
        ]
      : []),
  ];
}

/** @param results tokens of the longest result of each tool */
export function resultFindings(
  results: readonly { readonly tool: string; readonly tokens: number }[],
  context: number,
): Finding[] {
  const long = results.filter(({ tokens }) => tokens >= context);
  if (long.length === 0) return [];
  const names = long.map(({ tool, tokens }) => `${tool} ${tokens}`);
  const message = `tools returned more tokens than a context of ${context} has, which ends a rollout: ${some(names)}`;
  return [error("result_too_long", message)];
}

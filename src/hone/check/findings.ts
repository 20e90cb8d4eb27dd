/** Finds defects of a task from its declaration. Pure functions. */
import { type AnyTask, type Scenario, toolSchema } from "../../core/task/task.js";
import { isFolderName } from "../../core/util/paths.js";

export interface Finding {
  /** An error makes training useless or impossible; a warning should be reviewed. */
  readonly level: "error" | "warning";
  /** Its name for programs, "prompt_too_long". */
  readonly kind: string;
  readonly message: string;
}

export const error = (kind: string, message: string): Finding => ({ level: "error", kind, message });
export const warning = (kind: string, message: string): Finding => ({ level: "warning", kind, message });

export const some = (names: readonly string[]) =>
  `${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}`;

/** The runs of a task are kept in a folder of its name. */
export function* nameFindings(name: string): Iterable<Finding> {
  const refused = `the name "${name}" cannot be a folder's: use letters, digits, ".", "_" and "-", or train with --project NAME`;
  if (!isFolderName(name)) yield warning("name_refused", refused);
}

/** The content of a scenario without its id and split, to find duplicates. */
function contentOf({ id: _, split: __, ...content }: Scenario): string {
  return JSON.stringify(Object.entries(content).sort(([a], [b]) => (a < b ? -1 : 1)));
}

const questionOf = ({ question }: Scenario) =>
  String(question ?? "")
    .trim()
    .replace(/\s+/g, " ");

/** Ids of the tests of which `of` says the same as of a scenario in training, and of that one. */
function repeated(scenarios: readonly Scenario[], of: (scenario: Scenario) => string) {
  const trained = new Map(scenarios.filter(({ split }) => split === "train").map((one) => [of(one), one.id]));
  return scenarios.flatMap((one) => {
    const other = one.split === "test" && of(one) !== "" && trained.get(of(one));
    return other ? [{ test: one.id, other }] : [];
  });
}

export function* scenarioFindings(scenarios: readonly Scenario[]): Iterable<Finding> {
  for (const split of ["train", "test"] as const) {
    const none = `the ${split} split has no scenario, and training needs both splits`;
    if (!scenarios.some((scenario) => scenario.split === split)) yield error("no_scenarios", none);
  }
  const both = repeated(scenarios, contentOf).map(({ test, other }) => `${test} is ${other}`);
  const tested = `${both.length} test scenarios are also trained on, so that held-out success says nothing of new ones: ${some(both)}`;
  if (both.length > 0) return yield error("repeated_scenario", tested);
  // A question that many have is an instruction, and what they are about stands in other fields.
  if (2 * new Set(scenarios.map(questionOf)).size < scenarios.length) return;
  const asked = repeated(scenarios, questionOf).map(({ test, other }) => `${test} is that of ${other}`);
  const again = `${asked.length} test questions are trained on too, in scenarios with other fields, so that held-out success may say nothing of new ones: ${some(asked)}`;
  if (asked.length > 0) yield warning("repeated_question", again);
}

/** The arguments of a tool. A JSON Schema may also be true or false. */
type Properties = Readonly<Record<string, { readonly description?: string } | boolean>>;

export function* toolFindings({ tools }: Pick<AnyTask, "tools">): Iterable<Finding> {
  for (const { name, parameters } of tools) {
    const unchecked = "unchecked" in parameters ? parameters.unchecked : [];
    for (const what of unchecked) yield warning("pattern_unchecked", `of the tool ${name} ${what}`);
  }
  const bare = tools.filter(({ description }) => description.trim() === "").map(({ name }) => name);
  if (bare.length > 0) yield error("no_description", `tools without a description: ${some(bare)}`);
  const fields = tools.flatMap((tool) => {
    const properties = (toolSchema(tool).function.parameters.properties ?? {}) as Properties;
    const undescribed = Object.entries(properties).filter(([, one]) => typeof one === "boolean" || !one.description);
    return undescribed.map(([name]) => `${tool.name}.${name}`);
  });
  const described = `arguments without a description (zod's \`.describe()\`): ${some(fields)}`;
  if (fields.length > 0) yield warning("no_description", described);
}

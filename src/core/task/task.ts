/**
 * The task contract. A task is one readable file that defines the scenarios, the prompt, the tools, and the reward of a
 * finished trajectory. hone does the rest.
 *
 * Everything here is message-level: a task never sees tokens. It runs on any thread (scenarios are plain data, and each
 * worker opens its own environment), so a task keeps the state of a rollout only in its arguments.
 */
import { z } from "zod";
import { HoneError, messageOf } from "../util/errors.js";
import type { Random } from "../util/random.js";
import type { AgentContext, AgentRollout, ModelMistakes, RolloutContext } from "./agent.js";
import { DefinitionError, definitionProblem, TOOL_FIELDS, unknownField } from "./fields.js";
import { type ArgumentsOf, schemaOfParameters, strictParameters, type ToolParameters } from "./parameters.js";
import type { Reward, RolloutEnd, Scenario } from "./scenario.js";
import type { TaskServers } from "./servers.js";

export type { Reward, RolloutEnd, Scenario, Split } from "./scenario.js";

/** Context of a tool call. */
export interface ToolContext<S extends Scenario = Scenario, E = unknown> {
  readonly scenario: S;
  /** The environment that the task opened on this thread. */
  readonly env: E;
  /** Aborted when the tool's deadline passes or the rollout is cancelled. */
  readonly signal: AbortSignal;
}

export interface Tool<P extends ToolParameters = ToolParameters, S extends Scenario = Scenario, E = unknown> {
  readonly name: string;
  /** For the model: the tool's effect and its use. */
  readonly description: string;
  /**
   * Arguments; each field's `.describe()` is shown to the model. Unknown arguments are refused. A JSON Schema (see
   * `jsonSchema`) is shown and enforced unchanged.
   */
  readonly parameters: P;
  /** A tool that ends the rollout: its arguments are the model's answer. A task without one is answered in plain text. */
  readonly final: boolean;
  /**
   * Runs one call. The result is shown to the model: a string as it is, anything else as JSON. Throw {@link ToolError}
   * for a mistake of the model, which reads the message; any other error fails the rollout.
   */
  execute(args: ArgumentsOf<P>, context: ToolContext<S, E>): unknown;
}

/** A mistake of the model, worded for the model: it reads `{"error": message}` and goes on. */
export class ToolError extends Error {
  override readonly name = "ToolError";
}

export interface ToolDefinition<P extends ToolParameters, S extends Scenario, E> {
  name: string;
  description: string;
  parameters: P;
  final?: boolean;
  execute(args: ArgumentsOf<P>, context: ToolContext<S, E>): unknown;
}

const toolName = /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/;

/** Tasks need not be checked by TypeScript. */
function checkTool({ name, description, parameters, execute }: Omit<Tool, "final">): void {
  if (typeof name !== "string" || !toolName.test(name)) {
    throw new TypeError(`tool name ${JSON.stringify(name)}: use letters, digits, _ and -, at most 64 of them`);
  }
  if (typeof description !== "string") throw new TypeError(`the tool ${name} has no description, a text for the model`);
  if (typeof execute !== "function") throw new TypeError(`the tool ${name} has no function "execute"`);
  strictParameters(parameters);
}

/**
 * Checks and completes a tool. Throws TypeError where a field is missing or unknown, and on a name that model APIs do not
 * accept.
 */
export function defineTool<P extends ToolParameters, S extends Scenario = Scenario, E = unknown>(
  tool: ToolDefinition<P, S, E>,
): Tool<P, S, E> {
  const unknown = unknownField(tool, TOOL_FIELDS, "a tool");
  if (unknown !== undefined) throw new TypeError(`the tool ${tool.name} has ${unknown}`);
  checkTool(tool as Omit<Tool, "final">);
  return { ...tool, final: tool.final ?? false, parameters: strictParameters(tool.parameters) };
}

/** A tool in the format of chat templates and model APIs. */
export interface ToolSchema {
  type: "function";
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

/** The tool with the JSON Schema of its arguments (of zod objects draft 2020-12), without the `$schema` line. */
export function toolSchema(tool: Pick<Tool, "name" | "description" | "parameters">): ToolSchema {
  const { name, description } = tool;
  try {
    return { type: "function", function: { name, description, parameters: schemaOfParameters(tool.parameters) } };
  } catch (error) {
    const what = `the model cannot be shown the parameters of the tool ${name}`;
    throw new HoneError(`${what}: ${messageOf(error)}; take types that JSON has`, { cause: error });
  }
}

/** A tool call as the model wrote it. */
export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
  /** Only if the model's chat template uses ids of calls. */
  id?: string;
}

export type ChatMessage =
  | { role: "system" | "user"; content: string }
  | { role: "assistant"; content: string; tool_calls?: ToolCall[] }
  /** `id` is the id of the call, if it has one. */
  | { role: "tool"; name: string; content: string; id?: string };

/** Outcome of a call, or the reason why it did not run. */
export type CallOutcome =
  | "ok"
  /** The text of the call is not valid in the model's tool format. */
  | "malformed"
  | "unknown_tool"
  /** The arguments do not fit the tool's schema. */
  | "bad_arguments"
  /** The tool refused with a {@link ToolError}. */
  | "tool_error";

/** One call of a trajectory with its result, in order. */
export interface CallRecord {
  /** 1 for the first assistant turn. */
  turn: number;
  /** As written; empty when the call was malformed. */
  name: string;
  /** Parsed by the tool's schema if the outcome is "ok" or "tool_error"; else as written. */
  arguments: Record<string, unknown>;
  outcome: CallOutcome;
  /** The tool's return value as JSON data; for every other outcome `{error: message}`. */
  result: unknown;
}

/** Input of a reward: the whole conversation, and its calls with their results. */
export interface FinishedRollout {
  readonly messages: readonly ChatMessage[];
  readonly calls: readonly CallRecord[];
  /**
   * If the rollout ended with an answer: the arguments of the final tool's call; in a task without a final tool `{ text
   * }`, the model's last text, without its thoughts.
   */
  readonly answer: Readonly<Record<string, unknown>> | undefined;
  readonly end: RolloutEnd;
  /** Number of assistant turns. */
  readonly turns: number;
  readonly maxTurns: number;
  /**
   * The rollout's own folder (`${rolloutFolder}` of MCP servers) after its calls. It is deleted after the reward; its
   * servers may still run. Undefined if no server uses one.
   */
  readonly folder?: string | undefined;
}

/** Question to a judge of correctness: is the given answer equivalent to the golden one? */
export interface Claim {
  readonly question: string;
  readonly golden: string;
  readonly given: string;
}

/** Context of a reply to the model as the user. */
export interface ReplyContext<S extends Scenario = Scenario, E = unknown> extends ToolContext<S, E> {
  /** The whole conversation; its last message is to be answered. */
  readonly messages: readonly ChatMessage[];
  readonly calls: readonly CallRecord[];
  /** Assistant turns so far, including this one. */
  readonly turns: number;
  readonly maxTurns: number;
}

/** A turn of a scripted expert: calls, plain text, or text before calls. */
export type ExpertTurn = ToolCall[] | string | { readonly text: string; readonly calls: readonly ToolCall[] };

/** Sent to the expert after its turn: the calls with their results; after plain text also the reply. */
export type ExpertHears = CallRecord[] & { reply?: string };

/** What a scripted expert does in one rollout. */
export type ExpertScript = Generator<ExpertTurn, void, ExpertHears>;

export interface ExpertOptions {
  /**
   * Share of rollouts in which the expert makes a mistake: a number from 0 to 1 for all kinds together, or one for each
   * kind by the task's own names.
   */
  readonly mistakes?: number | Readonly<Record<string, number>>;
}

/** Options passed to every task in addition to its own. */
export interface CommonOptions {
  /** `--seed`: the source of everything random in the task. */
  readonly seed: number;
  /** `--home`: hone's folder, where a task may keep files. */
  readonly home: string;
}

/** Passed to `scenarios` and `open`: the task's own options as its schema parses them, and the common ones. */
export type TaskOptions<O extends z.ZodObject = z.ZodObject> = Readonly<z.output<O>> & CommonOptions;

/** Options as plain data, before a task's schema has parsed them. */
export type PlainOptions = Readonly<Record<string, unknown>>;

/** Where data sets are fetched from: values of the environment variables HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN, HF_HOME, HF_HUB_CACHE. */
export interface HubAccess {
  readonly hfEndpoint: string;
  readonly hfOffline: boolean;
  readonly hfToken: string | undefined;
  readonly hfHome: string | undefined;
  readonly hfCache: string | undefined;
}

/** Access for downloading scenarios. */
export interface ScenarioIo {
  /** Options of the Hub; default: Hugging Face's environment variables. */
  readonly hub?: HubAccess;
  /** Called with lines about downloads. */
  readonly log?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** To be called at signs of progress: the time limit (`--task-timeout`) counts from the last one. */
  readonly alive?: () => void;
}

export interface Task<S extends Scenario = Scenario, E = unknown> {
  readonly name: string;
  /** One-line description. */
  readonly description: string;
  /** The task's options: `--set NAME=VALUE`, listed by `--task TASK --help`. */
  readonly options: z.ZodObject;
  /** All scenarios, both splits, in a stable order. */
  scenarios(options: PlainOptions, io?: ScenarioIo): readonly S[] | Promise<readonly S[]>;
  /** Opens the environment of the tools on this thread (a database connection, for example). Called once per thread. */
  open(options: PlainOptions): E | Promise<E>;
  /** Closes the environment. */
  close(env: E): void | Promise<void>;
  /** The messages before the model's first turn. */
  prompt(scenario: S, limits: { maxTurns: number }): ChatMessage[];
  /**
   * Any number of tools. If none is final, the model answers in plain text: a turn without calls ends the rollout with
   * it, unless `reply` continues it.
   */
  readonly tools: readonly Tool<ToolParameters, S, E>[];
  /** MCP servers whose tools the model has in addition to `tools`. */
  readonly mcp?: TaskServers<S>;
  /**
   * Answers a turn of plain text as the user, so that the conversation goes on, up to the turn limit. null: there is no
   * reply, and the turn ends the rollout as if there were no `reply`. `text` is the turn without the model's thoughts.
   * An error thrown here ends the rollout like a tool's failure.
   */
  reply?(context: ReplyContext<S, E>, text: string): string | null | Promise<string | null>;
  reward(rollout: FinishedRollout, scenario: S, env: E): Reward | Promise<Reward>;
  /** Replaces prompt, tools and reward: the task's own code has the conversation. */
  rollout?(context: AgentContext<S, E>): ReturnType<AgentRollout>;
  /**
   * With `rollout`: prepares each, within `--task-timeout`; what it returns is its `fixture`. An error fails the rollout, as one
   * of the program.
   */
  setUp?(context: RolloutContext<S, E>): unknown;
  /** With `rollout`: called after each that was set up, however it has ended. An error fails the rollout. */
  tearDown?(context: RolloutContext<S, E> & { readonly fixture: unknown }): void | Promise<void>;
  /** With `rollout`: tools of which a call is the answer. A rollout that ends behind another call ends as `open_call`. */
  readonly finalTools?: readonly string[];
  /** With `rollout`: which of its errors are mistakes of the model. */
  readonly modelMistakes?: ModelMistakes<S>;
  /**
   * For tasks with free answers: the question for a judge about the rollout's answer; null where it gave none. In training and
   * evaluation a judge is asked only where the reward's own `success` is false.
   */
  claim?(rollout: FinishedRollout, scenario: S): Claim | null;
  /**
   * Whether golden answers of these scenarios are free text, for which `reward` accepts only some of the right
   * wordings. Training then logs this, with the options that use a judge.
   */
  freeAnswers?(scenarios: readonly S[]): boolean;
  /** A graded reward that is given whether the answer is right: `--reward shaped`. */
  shaped?(rollout: FinishedRollout, scenario: S, env: E, right: boolean): Reward | Promise<Reward>;
  /**
   * A scripted player: yields the calls, the text, or both, of each turn and receives their results (or the reply). Used for
   * warm-start traces, and to play the task without a model. A promise of one lets its code be loaded when it plays.
   */
  expert?(scenario: S, random: Random, options: ExpertOptions): ExpertScript | Promise<ExpertScript>;
}

type Completed = "description" | "options" | "scenarios" | "open" | "close" | "tools";

export type TaskDefinition<S extends Scenario, E, O extends z.ZodObject> = Omit<Task<S, E>, Completed> & {
  description?: string;
  /**
   * The task's own options, each with a default unless it is required; `.describe()` is its text in the help, and
   * `.meta({ path: true })` makes it a path. Their values must be plain data (strings, numbers, lists, objects).
   */
  options?: O;
  /** A function of the options; or `fromFile`, which adds options of its own. */
  scenarios(options: TaskOptions<O>, io?: ScenarioIo): readonly S[] | Promise<readonly S[]>;
  tools?: Task<S, E>["tools"];
  open?(options: TaskOptions<O>): E | Promise<E>;
  close?(env: E): void | Promise<void>;
};

/** A task that its own code plays and rewards: see docs/agents.md. */
export type AgentTaskDefinition<S extends Scenario, E, O extends z.ZodObject, F = undefined> = Omit<
  TaskDefinition<S, E, O>,
  "prompt" | "reward" | "rollout" | "setUp" | "tearDown"
> & {
  setUp?(context: RolloutContext<S, E>): F | Promise<F>;
  tearDown?(context: RolloutContext<S, E> & { readonly fixture: F }): void | Promise<void>;
  rollout: AgentRollout<S, E, F>;
  prompt?: undefined;
  reward?: undefined;
};

/** Parts of a task that hone plays and rewards. */
const playedNames = ["prompt", "tools", "mcp", "reply", "reward", "claim", "freeAnswers", "shaped", "expert"] as const;

/** Placeholders for these parts in a task with `rollout`. */
function unplayed(definition: { readonly name: string }) {
  const both = playedNames.find((name) => (definition as Partial<Record<typeof name, unknown>>)[name] !== undefined);
  if (both)
    throw new TypeError(`task ${definition.name}: rollout has the conversation and says the reward; leave ${both} out`);
  return {
    prompt: ({ question }: Scenario): ChatMessage[] => [{ role: "user", content: question }],
    reward: (): Reward => {
      throw new HoneError(`the task ${definition.name} is played and rewarded by its own code (rollout)`);
    },
  };
}

/** Parts of a task that its own code plays. */
const agentNames = {
  setUp: "open is called once a thread",
  tearDown: "close is called once a thread",
  finalTools: "a tool is final itself",
  modelMistakes: "a tool throws ToolError",
} as const;

/** Options that a source of scenarios adds. */
const broughtBy = (scenarios: unknown) => (scenarios as { readonly options?: z.ZodObject }).options?.shape ?? {};

/**
 * Checks and completes a task. Throws TypeError when a field is missing or unknown, two tools share a name, an option has a
 * common one's, or a task with `rollout` has parts for play by hone.
 */
export function defineTask<S extends Scenario, E = undefined, O extends z.ZodObject = z.ZodObject, F = undefined>(
  definition: AgentTaskDefinition<S, E, O, F>,
): Task<S, E>;
export function defineTask<S extends Scenario, E = undefined, O extends z.ZodObject = z.ZodObject>(
  definition: TaskDefinition<S, E, O>,
): Task<S, E>;
export function defineTask<S extends Scenario, E, O extends z.ZodObject>(
  given: TaskDefinition<S, E, O> | AgentTaskDefinition<S, E, O>,
): Task<S, E> {
  const problem = definitionProblem(given);
  if (problem !== undefined) throw new DefinitionError(problem);
  const definition = given.rollout ? { ...given, ...unplayed(given) } : (given as TaskDefinition<S, E, O>);
  const { tools = [], options: own = z.object({}) } = definition;
  if (!Array.isArray(tools))
    throw new TypeError(`task ${definition.name}: tools is no list; write [defineTool({...})]`);
  if (!(own instanceof z.ZodObject))
    throw new TypeError(`task ${definition.name}: options is no z.object({...}) of hone's own \`z\` (zod 4)`);
  for (const tool of tools) checkTool(tool);
  const names = tools.map((tool) => tool.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice) throw new TypeError(`task ${definition.name}: two tools are called ${twice}`);
  const taken = ["seed", "home"].find((name) => Object.hasOwn(own.shape, name));
  for (const [name, instead] of Object.entries(agentNames)) {
    if (given.rollout || given[name as keyof typeof agentNames] === undefined) continue;
    throw new TypeError(`task ${definition.name}: ${name} is for a task with rollout; ${instead}`);
  }
  if (taken) throw new TypeError(`task ${definition.name}: every task gets ${taken}; give its own option another name`);
  const brought = broughtBy(definition.scenarios);
  const both = Object.keys(brought).find((name) => Object.hasOwn(own.shape, name));
  if (both)
    throw new TypeError(`task ${definition.name}: fromFile brings the option ${both}; give its own another name`);
  const options = own.extend(brought).strict();
  const parse = ({ seed = 1, home = ".hone", ...given }: PlainOptions) =>
    ({ ...options.parse(given), seed, home }) as TaskOptions<O>;
  return {
    ...definition,
    tools,
    options,
    description: definition.description ?? definition.name,
    scenarios: (given, io) => definition.scenarios(parse(given), io),
    open: async (given) => {
      const options = parse(given);
      return ofTask(`the task ${definition.name} cannot be opened`, () => definition.open?.(options) as E);
    },
    close: (env) => ofTask(`close of the task ${definition.name} failed`, () => definition.close?.(env)),
  };
}

/** @throws HoneError for an error of the task's own code, after what failed */
async function ofTask<T>(what: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof HoneError ? error : new HoneError(`${what}: ${messageOf(error)}`, { cause: error });
  }
}

/** A task with unknown types of scenario and environment, as loaded from a file. */
export type AnyTask = Task<Scenario, unknown>;

/**
 * The task contract: what is trained. A task is one readable file that says which scenarios there are, what the
 * model is told, which tools it has, and how a finished trajectory is rewarded. hone does the rest.
 *
 * Everything here is message-level: a task never sees tokens. It runs on any thread (scenarios are plain data, and
 * each worker opens its own environment), so a task keeps what it knows about one rollout in nothing but its arguments.
 */
import { z } from "zod";
import type { HubConfig } from "../hub/index.js";
import { HoneError, type Random } from "../util/index.js";
import type { AgentContext, AgentRollout } from "./agent.js";
import { type ArgumentsOf, schemaOfParameters, strictParameters, type ToolParameters } from "./parameters.js";
import type { Reward, Scenario } from "./scenario.js";
import type { TaskServers } from "./servers.js";

export type { Reward, Scenario, Split } from "./scenario.js";

/** What a tool can see while it runs. */
export interface ToolContext<S extends Scenario = Scenario, E = unknown> {
  readonly scenario: S;
  /** What the task opened on this thread. */
  readonly env: E;
  /** Aborted when the tool's deadline passes or the rollout is cancelled. */
  readonly signal: AbortSignal;
}

export interface Tool<P extends ToolParameters = ToolParameters, S extends Scenario = Scenario, E = unknown> {
  readonly name: string;
  /** For the model: what it does and when to use it. */
  readonly description: string;
  /**
   * Arguments; each field's `.describe()` is shown to the model. Unknown arguments are refused. A JSON Schema (see
   * `jsonSchema`) is shown and obeyed as it stands.
   */
  readonly parameters: P;
  /** A tool that ends the rollout: its arguments are the model's answer. A task without one is answered in plain text. */
  readonly final: boolean;
  /**
   * Runs one call. The result is shown to the model: a string as it is, anything else as JSON.
   * Throw {@link ToolError} for what the model did wrong and should read; any other error fails the rollout.
   */
  execute(args: ArgumentsOf<P>, context: ToolContext<S, E>): unknown;
}

/** The model's own mistake, worded for the model: it reads `{"error": message}` and goes on. */
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

/** Checks and completes a tool. Throws TypeError on a name that models' APIs do not take. */
export function defineTool<P extends ToolParameters, S extends Scenario = Scenario, E = unknown>(
  tool: ToolDefinition<P, S, E>,
): Tool<P, S, E> {
  if (!toolName.test(tool.name)) {
    throw new TypeError(`tool name ${JSON.stringify(tool.name)}: use letters, digits, _ and -, at most 64 of them`);
  }
  return { ...tool, final: tool.final ?? false, parameters: strictParameters(tool.parameters) };
}

/** A tool as chat templates and model APIs take it. */
export interface ToolSchema {
  type: "function";
  function: { name: string; description: string; parameters: Record<string, unknown> };
}

/** The tool with the JSON Schema of its arguments (of zod objects draft 2020-12), without the `$schema` line. */
export function toolSchema(tool: Pick<Tool, "name" | "description" | "parameters">): ToolSchema {
  const { name, description } = tool;
  return { type: "function", function: { name, description, parameters: schemaOfParameters(tool.parameters) } };
}

/** A tool call as the model wrote it. */
export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
  /** Only where the model's chat template has ids of calls. */
  id?: string;
}

export type ChatMessage =
  | { role: "system" | "user"; content: string }
  | { role: "assistant"; content: string; tool_calls?: ToolCall[] }
  /** `id` is the call's, where that has one. */
  | { role: "tool"; name: string; content: string; id?: string };

/** Why a call did not run, or what became of it. */
export type CallOutcome =
  | "ok"
  /** What was written as a call is not one in the model's tool-call format. */
  | "malformed"
  | "unknown_tool"
  /** The arguments do not fit the tool's schema. */
  | "bad_arguments"
  /** The tool refused with a {@link ToolError}. */
  | "tool_error";

/** One call of a trajectory with what came back, in order. */
export interface CallRecord {
  /** 1 for the first assistant turn. */
  turn: number;
  /** As written; empty when the call was malformed. */
  name: string;
  /** As parsed by the tool's schema when the outcome is "ok" or "tool_error"; else as written. */
  arguments: Record<string, unknown>;
  outcome: CallOutcome;
  /** What the tool returned, as JSON data; for every other outcome `{error: message}`. */
  result: unknown;
}

export type RolloutEnd =
  /** By a final tool; in a task without one by plain text. */
  | "answered"
  /** Plain text where only a final tool answers; or no text and no call. */
  | "no_tool_call"
  | "turn_limit"
  | "token_limit"
  | "context_limit"
  | "deadline"
  | "tool_failure"
  | "bad_call";

/** What a reward may look at: the whole conversation, and the calls in it with their results. */
export interface FinishedRollout {
  readonly messages: readonly ChatMessage[];
  readonly calls: readonly CallRecord[];
  /**
   * When the rollout ended with an answer: the arguments of the final tool's call; in a task without a final tool
   * `{ text }`, what the model said last, without its thoughts.
   */
  readonly answer: Readonly<Record<string, unknown>> | undefined;
  readonly end: RolloutEnd;
  /** Assistant turns played. */
  readonly turns: number;
  readonly maxTurns: number;
  /**
   * The rollout's own folder (`${rolloutFolder}` of MCP servers), as its tools have left it. It is gone after the reward;
   * its servers may still run. Undefined where no server has asked for one.
   */
  readonly folder?: string | undefined;
}

/** What a judge of correctness is asked: is the given answer as good as the golden one? */
export interface Claim {
  readonly question: string;
  readonly golden: string;
  readonly given: string;
}

/** What a task sees when it answers the model as the user. */
export interface ReplyContext<S extends Scenario = Scenario, E = unknown> extends ToolContext<S, E> {
  /** The whole conversation, the text that is to be answered last. */
  readonly messages: readonly ChatMessage[];
  readonly calls: readonly CallRecord[];
  /** Assistant turns so far, this one included. */
  readonly turns: number;
  readonly maxTurns: number;
}

/** What a scripted expert does in one turn: calls, or plain text. */
export type ExpertTurn = ToolCall[] | string;

/** What the expert is sent after its turn: the calls with their results; after plain text also what was answered. */
export type ExpertHears = CallRecord[] & { reply?: string };

export interface ExpertOptions {
  /**
   * Share of rollouts in which the expert makes a mistake: of all its kinds together (0 to 1), or of each kind by the
   * task's own names.
   */
  readonly mistakes?: number | Readonly<Record<string, number>>;
}

/** What every task is told beside its own options. */
export interface CommonOptions {
  /** `--seed`: whatever a task draws at random follows from it. */
  readonly seed: number;
  /** `--home`: hone's folder, where a task may keep files. */
  readonly home: string;
}

/** What `scenarios` and `open` are told: the task's own options as its schema parses them, and the common ones. */
export type TaskOptions<O extends z.ZodObject = z.ZodObject> = Readonly<z.output<O>> & CommonOptions;

/** Options as plain data, before a task's schema has parsed them. */
export type PlainOptions = Readonly<Record<string, unknown>>;

/** What scenarios that come from somewhere else are fetched with. */
export interface ScenarioIo {
  /** How the Hub is spoken to; Hugging Face's variables say it where nobody else does. */
  readonly hub?: HubConfig;
  /** Hears what is downloaded. */
  readonly log?: (line: string) => void;
  readonly signal?: AbortSignal;
}

export interface Task<S extends Scenario = Scenario, E = unknown> {
  readonly name: string;
  /** One line for people. */
  readonly description: string;
  /** What can be set of it: `--set NAME=VALUE`, listed by `--task TASK --help`. */
  readonly options: z.ZodObject;
  /** All scenarios, both splits, in a stable order. */
  scenarios(options: PlainOptions, io?: ScenarioIo): readonly S[] | Promise<readonly S[]>;
  /** Opens what the tools need on this thread (a database connection, say). Called once per thread. */
  open(options: PlainOptions): E | Promise<E>;
  /** Closes what `open` opened. */
  close(env: E): void | Promise<void>;
  /** The messages before the model's first turn. */
  prompt(scenario: S, limits: { maxTurns: number }): ChatMessage[];
  /**
   * Any number of tools. Where none is final, the model answers in plain text: a turn without calls ends the rollout
   * with it, unless `reply` goes on.
   */
  readonly tools: readonly Tool<ToolParameters, S, E>[];
  /** MCP servers whose tools the model has beside `tools`. */
  readonly mcp?: TaskServers<S>;
  /**
   * Answers a turn of plain text as the user, so that the conversation goes on, up to the turn limit. null: nothing is
   * said to it, and it ends the rollout as if there were no `reply`. `text` is the turn without the model's thoughts.
   * An error that it throws ends the rollout as a tool's failure does.
   */
  reply?(context: ReplyContext<S, E>, text: string): string | null | Promise<string | null>;
  reward(rollout: FinishedRollout, scenario: S, env: E): Reward | Promise<Reward>;
  /** In the place of all that plays and rewards: the task's own code has the conversation. */
  rollout?(context: AgentContext<S, E>): ReturnType<AgentRollout>;
  /**
   * For tasks with free answers: what a judge has to be asked to know whether the rollout's answer is right. null when
   * the reward's own `success` settles it: the answers agree word for word, or there is none.
   */
  claim?(rollout: FinishedRollout, scenario: S): Claim | null;
  /**
   * Are golden answers among these free text, of which `reward` knows only some of the right wordings? Training then says
   * so, and which options use a judge.
   */
  freeAnswers?(scenarios: readonly S[]): boolean;
  /** A graded reward for which it is known whether the answer is right: `--reward shaped`. */
  shaped?(rollout: FinishedRollout, scenario: S, env: E, right: boolean): Reward | Promise<Reward>;
  /**
   * A scripted player, when the task has one: yields the calls (or the text) of each turn and is sent their results
   * (or the reply). It makes warm-start traces and shows the task without a model.
   */
  expert?(scenario: S, random: Random, options: ExpertOptions): Generator<ExpertTurn, void, ExpertHears>;
}

type Completed = "description" | "options" | "scenarios" | "open" | "close" | "tools";

export type TaskDefinition<S extends Scenario, E, O extends z.ZodObject> = Omit<Task<S, E>, Completed> & {
  description?: string;
  /**
   * The task's own options, each with a default unless it must be given; `.describe()` is what help says of it, and
   * `.meta({ path: true })` makes it a path. Their values must be plain data (strings, numbers, lists, objects).
   */
  options?: O;
  /** A function of the options; or `fromFile`, which brings options of its own. */
  scenarios(options: TaskOptions<O>, io?: ScenarioIo): readonly S[] | Promise<readonly S[]>;
  tools?: Task<S, E>["tools"];
  open?(options: TaskOptions<O>): E | Promise<E>;
  close?(env: E): void | Promise<void>;
};

/** A task that its own code plays and rewards: see docs/agents.md. */
export type AgentTaskDefinition<S extends Scenario, E, O extends z.ZodObject> = Omit<
  TaskDefinition<S, E, O>,
  "prompt" | "reward" | "rollout"
> & { rollout: AgentRollout<S, E>; prompt?: undefined; reward?: undefined };

/** The parts with which hone plays and rewards a task. */
const playedNames = ["prompt", "tools", "mcp", "reply", "reward", "claim", "freeAnswers", "shaped", "expert"] as const;

/** Their substitutes where the task's own code plays. */
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

/** The options that a source of scenarios has of its own. */
const broughtBy = (scenarios: unknown) => (scenarios as { readonly options?: z.ZodObject }).options?.shape ?? {};

/**
 * Checks and completes a task. Throws TypeError when two tools share a name, an option has a common one's, or an agent's
 * task has parts that are not its own.
 */
export function defineTask<S extends Scenario, E = undefined, O extends z.ZodObject = z.ZodObject>(
  definition: AgentTaskDefinition<S, E, O>,
): Task<S, E>;
export function defineTask<S extends Scenario, E = undefined, O extends z.ZodObject = z.ZodObject>(
  definition: TaskDefinition<S, E, O>,
): Task<S, E>;
export function defineTask<S extends Scenario, E, O extends z.ZodObject>(
  given: TaskDefinition<S, E, O> | AgentTaskDefinition<S, E, O>,
): Task<S, E> {
  const definition = given.rollout ? { ...given, ...unplayed(given) } : (given as TaskDefinition<S, E, O>);
  const { tools = [], options: own = z.object({}) } = definition;
  const names = tools.map((tool) => tool.name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice) throw new TypeError(`task ${definition.name}: two tools are called ${twice}`);
  const taken = ["seed", "home"].find((name) => Object.hasOwn(own.shape, name));
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
    open: (given) => (definition.open ? definition.open(parse(given)) : (undefined as E)),
    close: definition.close ?? (() => undefined),
  };
}

/** A task whose scenario and environment types are not known here, as it comes from a file. */
export type AnyTask = Task<Scenario, unknown>;

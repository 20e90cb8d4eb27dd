/**
 * A trajectory: the complete record of one rollout, as one JSON line of a trajectory file. Later stages (judging,
 * training, warm start, viewing) read these and nothing else.
 */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import type { ServerEvents } from "../task/servers.js";
import type { CallRecord, ChatMessage, Reward, RolloutEnd, Scenario, ToolSchema } from "../task/task.js";
import { HoneError } from "../util/errors.js";
import { mapBigints, parseJson } from "../util/json.js";
import { hone } from "../util/program.js";
import type { DeadlineCause } from "./deadline.js";
import type { TokenRecord } from "./transcript.js";

/** The player's identity. */
export interface Player {
  /** "engine", "api" (a model behind an OpenAI-compatible API) or "expert" (the task's script). */
  kind: "engine" | "api" | "expert";
  /** Model file, or model name at the API; the task's name for its expert. */
  model: string;
  /** SHA-256 of the adapter file in use, null for the base model. */
  adapter: string | null;
  temperature: number;
}

/** A further sequence of a rollout: an agent's second conversation, or one that went on in another way. */
export interface Branch {
  messages: ChatMessage[];
  /** Those of turns that no earlier sequence of the rollout has. Missing where there are none. */
  calls?: CallRecord[];
  /** A token that an earlier sequence of the rollout has as sampled is given here: none is trained twice. */
  tokens: TokenRecord;
}

/** A turn of the model in the tree of a rollout's sequences. */
export interface PlayedNode {
  /** Index of the turn that it goes on from, in the list; null: its conversation begins anew. */
  parent: number | null;
  /** The sequence that has its tokens as sampled: 0 is the first, then `branches`. */
  sequence: number;
  /** Index of its message in that sequence. */
  message: number;
  /** Numbers of tokens given since the turn before it, and sampled. */
  given: number;
  sampled: number;
  /** Index of the first turn that answers the very same messages: this one is another attempt. */
  again?: number;
  /** Turns in the messages before it that the code has changed. */
  rewritten?: number;
}

/** Counts of a rollout that a task's own code played. */
export interface AgentCounts {
  /** Turns of the model, over all sequences. */
  completions: number;
  sequences: number;
  /** Turns that the code sent back otherwise than they were sampled: they are given there, and begin new sequences. */
  history_rewritten?: number;
  /** Requests that were answered with an error: options that training refuses, too many at once. */
  refused?: number;
  /** Turns whose answer or calls had not the form that was asked for. */
  off_form?: number;
}

export interface Trajectory {
  /** `<scenario id>/<index in the group>`. */
  id: string;
  task: string;
  scenario: Scenario;
  /** Position in its group, from 0. */
  index: number;
  /** Derived from run, step, scenario and index. */
  seed: number;
  player: Player;
  messages: ChatMessage[];
  /** As the model was shown them, of an imported conversation: it need be of no task. Missing: the task's. */
  tools?: ToolSchema[];
  /** Of the first sequence, where there are several. */
  calls: CallRecord[];
  /** Arguments of the final tool's call. */
  answer?: Record<string, unknown>;
  end: RolloutEnd;
  /** For the end "deadline": its cause; see deadline.ts. */
  deadlineCause?: DeadlineCause;
  /** The cause, when the end alone does not name it: a tool's failure, for example. */
  reason?: string;
  /** What happened with the MCP servers' side of it: failures, and results that the model did not read as they were. */
  servers?: ServerEvents;
  turns: number;
  maxTurns: number;
  reward: Reward;
  /** Only the engine's own rollouts have tokens; only those can be trained by GRPO. */
  tokens?: TokenRecord;
  /** Sequences after the first, which `messages` and `tokens` show. Missing where there is one. */
  branches?: Branch[];
  /** Where the task's own code played. */
  agent?: AgentCounts;
  /** Its turns in the order in which they began. Missing where there is one sequence. */
  tree?: PlayedNode[];
  /** The end of the output of that code and of the programs that it ran. */
  output?: string;
  completionTokens: number;
  promptTokens: number;
  /** Seconds: total, waiting for the player, the part of it before the engine began with the turn, running tools. */
  seconds: { total: number; player: number; queue: number; tools: number };
}

export interface HasCalls<C = CallRecord> {
  readonly calls: readonly C[];
  readonly branches?: readonly { readonly calls?: readonly C[] }[];
}

/** The calls of all sequences of a rollout. */
export const callsIn = <C>({ calls, branches = [] }: HasCalls<C>): C[] => [
  ...calls,
  ...branches.flatMap((branch) => branch.calls ?? []),
];

/** The tokens of all sequences of a rollout; none where its player has none. */
export const recordsOf = ({ tokens, branches = [] }: Pick<Trajectory, "tokens" | "branches">): TokenRecord[] =>
  tokens ? [tokens, ...branches.map((branch) => branch.tokens)] : [];

/** A rollout that could not be finished: a defect of a tool, the task or the machine, never the model's fault. */
export interface RolloutFailure {
  id: string;
  error: string;
}

/** What a trajectory's JSON says: integers are exact, but for those of the reward, which were numbers. */
export function trajectoryIn(json: string): unknown {
  const value = parseJson(json);
  if (typeof value !== "object" || value === null || !("reward" in value)) return value;
  return { ...value, reward: mapBigints(value.reward, Number) };
}

/** Reads a trajectory file line by line. Throws HoneError naming the file and the line that is wrong. */
export async function* readTrajectories(file: string): AsyncGenerator<Trajectory> {
  const lines = createInterface({ input: createReadStream(file), crlfDelay: Number.POSITIVE_INFINITY });
  let number = 0;
  for await (const line of lines) {
    number++;
    if (line.trim() === "") continue;
    let value: unknown;
    try {
      value = trajectoryIn(line);
    } catch (error) {
      throw new HoneError(
        `${file} line ${number} is not JSON; is it a trajectory file made by \`${hone("rollout")}\`?`,
        {
          cause: error,
        },
      );
    }
    if (!isTrajectory(value)) {
      throw new HoneError(`${file} line ${number} is not a trajectory; give a file made by \`${hone("rollout")}\``);
    }
    yield value;
  }
}

function isTrajectory(value: unknown): value is Trajectory {
  if (typeof value !== "object" || value === null) return false;
  const trajectory = value as Record<string, unknown>;
  return (
    typeof trajectory.id === "string" &&
    typeof trajectory.scenario === "object" &&
    Array.isArray(trajectory.messages) &&
    Array.isArray(trajectory.calls) &&
    typeof trajectory.end === "string" &&
    typeof trajectory.reward === "object"
  );
}

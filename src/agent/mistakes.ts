/**
 * Whose fault it is when a task's own code ends with an error: the model's, whose rollout then earns what the task says or 0
 * and is trained, or the program's, whose rollout has failed. Known are the task's own word, the names that agent frameworks
 * give to mistakes of a model, and what the model did in its last turn.
 */

import { type AgentFailure, ProgramError, rewardReturned } from "../core/task/agent.js";
import type { AnyTask, Reward, RolloutEnd, Scenario } from "../core/task/task.js";
import { messageOf } from "../core/util/errors.js";
import { type Exception, exceptionsOf } from "./exceptions.js";
import { refusalByRequest } from "./request-refusals.js";
import type { PlayedTurn, RolloutModel } from "./rollout-model.js";

/** The end of a rollout whose code ended with an error for a mistake of the model. */
export interface Mistake {
  readonly end: RolloutEnd;
  readonly reason: string;
  readonly reward: Reward;
}

/** Names that frameworks give to them, without modules and `AI_`, by how the rollout ended. */
const KNOWN: Readonly<Partial<Record<RolloutEnd, readonly string[]>>> = {
  turn_limit: [
    // OpenAI Agents in Python and JavaScript.
    "MaxTurnsExceeded",
    "MaxTurnsExceededError",
    // pydantic-ai, LangGraph, LangChain, Google's ADK, smolagents.
    "UsageLimitExceeded",
    "GraphRecursionError",
    "ModelCallLimitExceededError",
    "ToolCallLimitExceededError",
    "LlmCallsLimitExceededError",
    "AgentMaxStepsError",
  ],
  token_limit: [
    // OpenAI's clients, pydantic-ai, instructor, Strands.
    "LengthFinishReasonError",
    "OutputTokenLimitExceeded",
    "IncompleteToolCall",
    "IncompleteOutputException",
    "MaxTokensReachedException",
  ],
  bad_call: [
    // AI SDK (the second in OpenAI Agents too), smolagents.
    "NoSuchToolError",
    "InvalidToolInputError",
    "AgentToolCallError",
    "AgentParsingError",
  ],
  model_mistake: [
    // OpenAI Agents, pydantic-ai, AI SDK, LangChain.
    "ModelBehaviorError",
    "UnexpectedModelBehavior",
    "NoObjectGeneratedError",
    "NoOutputGeneratedError",
    "ToolChoiceViolationError",
    "OutputParserException",
    "StructuredOutputValidationError",
    "MultipleStructuredOutputsError",
  ],
};

const endOfName = new Map(
  Object.entries(KNOWN).flatMap(([end, names]) => names.map((name) => [name, end as RolloutEnd] as const)),
);

/** pydantic-ai gives the name of a model's mistake to an answer that the endpoint has written wrongly, too. */
const ENDPOINT = /^Invalid response from /;

function knownEnd(exceptions: readonly Exception[], own: readonly string[]): RolloutEnd | undefined {
  for (const { names, message } of exceptions) {
    const name = names.find((one) => endOfName.has(one) || own.includes(one));
    if (name !== undefined && !ENDPOINT.test(message)) return endOfName.get(name) ?? "model_mistake";
  }
  return undefined;
}

interface Evidence {
  readonly end: RolloutEnd;
  readonly what: string;
}

/** What a turn did wrong, by hone's own record of it. */
function evidenceOf({ asked, answer, cut, formProblem }: PlayedTurn): Evidence | undefined {
  if (cut) return { end: "token_limit", what: `its last turn was cut after ${answer.segment.ids.length} tokens` };
  for (const written of answer.read.calls) {
    if (written.kind === "malformed")
      return { end: "bad_call", what: `its last call was malformed: ${written.reason}` };
    const refusal = refusalByRequest(written.call, asked.tools);
    if (refusal) return { end: "bad_call", what: `its last call could not run: ${refusal.error}` };
  }
  if (formProblem === undefined) return undefined;
  return { end: "model_mistake", what: `its last answer has not the form that was asked for: ${formProblem}` };
}

export const NOTHING: Reward = { reward: 0, success: false, parts: {} };

/**
 * @param error with which the code ended
 * @returns undefined where the program is at fault
 * @throws what the task's own `modelMistakes` throws
 */
export function mistakeOf(
  error: unknown,
  model: Pick<RolloutModel, "turns" | "limit" | "trouble">,
  { modelMistakes }: Pick<AnyTask, "modelMistakes">,
  scenario: Scenario,
): Mistake | undefined {
  const { turns, limit, trouble } = model;
  const exceptions = exceptionsOf(error);
  const last = turns.at(-1);
  // A signal ends a program from outside; after a request that failed, that is what the code could not go on from.
  const ended = error instanceof ProgramError && error.code === null;
  const evidence = last && trouble === undefined && !ended ? evidenceOf(last) : undefined;
  const own = typeof modelMistakes === "function" ? [] : (modelMistakes ?? []);
  const known = trouble === undefined ? knownEnd(exceptions, own) : undefined;
  const end = limit?.end ?? known ?? evidence?.end;
  const because =
    limit === undefined && known === undefined && evidence ? `the model's mistake: ${evidence.what}; ` : "";
  const reason = `${because}${messageOf(error)}`;

  if (typeof modelMistakes === "function") {
    const failure: AgentFailure = {
      scenario,
      error,
      message: messageOf(error),
      turns: turns.length,
      names: [...new Set(exceptions.flatMap(({ names }) => names))],
      evidence: evidence?.what,
      end,
    };
    const said = modelMistakes(failure);
    if (said === false) return undefined;
    const reward = said === true || said === undefined ? NOTHING : rewardReturned(said);
    if (said !== undefined) return { end: end ?? "model_mistake", reason, reward };
  }
  return end && { end, reason, reward: NOTHING };
}

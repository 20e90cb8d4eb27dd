/** Turns of a model of this process, of a rollout's or of one that is served: no server is between. */
import {
  APICallError,
  type LanguageModelV3CallOptions,
  type SharedV3Warning,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import { toJson } from "../../core/util/json.js";
import { anyOf } from "../../core/util/signals.js";
import { ApiError } from "../../serve/errors.js";
import type { Answer, ServedModel } from "../../serve/model.js";
import { readChatRequest } from "../../serve/requests.js";
import { prepareTurns, type Turns } from "../../serve/turns.js";
import { chatRequestOf, leftOut } from "./request.js";
import type { Said, Source } from "./source.js";

/** The SDK asks again where it may: when too many requests wait. */
function sdkError(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  if (error.code === "unsupported_value") {
    return new UnsupportedFunctionalityError({ functionality: error.param ?? "this option", message: error.message });
  }
  return new APICallError({
    message: error.message,
    url: "hone:in-process",
    requestBodyValues: {},
    statusCode: error.status,
    isRetryable: error.status === 429,
    responseBody: JSON.stringify(error.body),
    data: error.body,
    cause: error,
  });
}

/** What of a request is not done as it asks. */
function warningsOf(model: ServedModel, turns: Turns, options: LanguageModelV3CallOptions): SharedV3Warning[] {
  const { fixedTemperature: fixed } = model;
  const { not_enforced: notEnforced = [] } = turns.hone;
  const warnings: SharedV3Warning[] = [];
  const warn = (feature: string, details: string) => warnings.push({ type: "unsupported", feature, details });
  if (fixed !== undefined && options.temperature !== undefined && options.temperature !== fixed) {
    warn("temperature", `turns of a rollout are sampled at ${fixed}`);
  }
  if (model.enforces) return [...warnings, ...leftOut(notEnforced)];
  if (turns.checks.format) {
    warn(
      "responseFormat",
      "the schema is not enforced: ask for the form in the prompt; providerMetadata.hone.schemaProblem names the first deviation",
    );
  }
  if (turns.checks.calls) {
    warn(
      "toolChoice and strict tools",
      "calls are not enforced: ask for them in the prompt; providerMetadata.hone.callProblem names the first deviation",
    );
  }
  return warnings;
}

function saidOf({ conversation, hone: { seed }, reasoningOf, problemsOf }: Turns, answer: Answer): Said {
  const problems = problemsOf(answer);
  return {
    reasoning: reasoningOf(answer),
    text: answer.read.said,
    calls: answer.calls.map(({ id, name, arguments: args }) => ({ id: id as string, name, arguments: toJson(args) })),
    stop: answer.stop,
    usage: { prompt: conversation.length, cached: answer.kept, sampled: answer.segment.ids.length },
    about: {
      continued: conversation.point !== null,
      historyRewritten: conversation.rewritten,
      seed,
      ...(problems?.schema_problem === undefined ? {} : { schemaProblem: problems.schema_problem }),
      ...(problems?.call_problem === undefined ? {} : { callProblem: problems.call_problem }),
    },
  };
}

/** @param checked whether requests are checked as those that come by HTTP; a rollout's rules are its model's */
export function inProcess(model: ServedModel, checked: boolean): Source {
  /** The error for the SDK. One that its own signal causes is no answer of the model. */
  const failed = (error: unknown, ...signals: readonly (AbortSignal | undefined)[]) => {
    if (!signals.some((signal) => signal?.aborted)) model.onError(error);
    return sdkError(error);
  };
  return {
    name: model.name,
    begin: async (options) => {
      const { abortSignal } = options;
      let turns: Turns;
      try {
        const request = chatRequestOf(options, model.name);
        turns = await prepareTurns(model, checked ? readChatRequest(request) : request, abortSignal);
      } catch (error) {
        throw failed(error);
      }
      return {
        warnings: warningsOf(model, turns, options),
        admit: () => {
          try {
            model.seats.checkRoom(1);
          } catch (error) {
            throw failed(error);
          }
        },
        sample: async (onPiece, gone = new AbortController().signal) => {
          using ended = anyOf(abortSignal ? [abortSignal, gone] : [gone]);
          try {
            return saidOf(turns, await turns.sample(0, ended.signal, onPiece));
          } catch (error) {
            throw failed(error, abortSignal, gone);
          }
        },
      };
    },
  };
}

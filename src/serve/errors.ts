/** Errors in the format of OpenAI's API, whose clients map the status to error classes. */
import { EngineOutOfMemory } from "../core/engine/errors.js";
import { HoneError, messageOf } from "../core/util/errors.js";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    message: string,
    readonly code: string | null = null,
    readonly param: string | null = null,
  ) {
    super(message);
  }

  get body() {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

const INVALID = "invalid_request_error";

export const badRequest = (message: string, param: string | null = null, code: string | null = null) =>
  new ApiError(400, INVALID, message, code, param);

export const unsupported = (message: string, param: string) => badRequest(message, param, "unsupported_value");

/** @param tokens undefined: they were not counted, since they are too many */
export const tooLong = (tokens: number | undefined, room: number, param: string) =>
  badRequest(
    `This model's maximum context length is ${room} tokens, but the request has ${tokens ?? "more"} before the first new one. Shorten it, or start the server with a larger --context.`,
    param,
    "context_length_exceeded",
  );

export const notFound = (message: string, code: string | null = null) =>
  new ApiError(404, INVALID, message, code, code === "model_not_found" ? "model" : null);

export const forbidden = (message: string) => new ApiError(403, INVALID, message, "forbidden");

/** @param key the right one, as it is called */
export const unauthorized = (key: string) =>
  new ApiError(401, INVALID, `Incorrect API key: send ${key} as a bearer token.`, "invalid_api_key");

export const tooLarge = (most: number) =>
  new ApiError(413, INVALID, `The request's body is larger than ${most} bytes.`, "request_too_large");

export const queueFull = (most: number) =>
  new ApiError(
    429,
    "rate_limit_error",
    `The queue is full: ${most} completions wait already. Try again later.`,
    "queue_full",
  );

export const shuttingDown = () => new ApiError(503, "server_error", "The server is shutting down.", "shutting_down");

/** How a dialect writes errors: as the body of an answer, and as the last event of a stream. */
export interface ErrorForm {
  body(error: ApiError): object;
  event(error: ApiError): { readonly name?: string; readonly data: object };
}

export const openAiErrors: ErrorForm = { body: ({ body }) => body, event: ({ body }) => ({ data: body }) };

/** Converts any error for the client. The stack of a defect is not sent. */
export function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  if (error instanceof EngineOutOfMemory) return new ApiError(503, "server_error", error.message, "out_of_memory");
  if (error instanceof HoneError) return new ApiError(500, "server_error", error.message);
  return new ApiError(500, "server_error", `unexpected error: ${messageOf(error)}`);
}

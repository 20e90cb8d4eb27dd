/**
 * HTTP client for the Hugging Face Hub and its mirrors. Handles redirects to other hosts, which must not get the token,
 * broken or stalled connections, and busy servers.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { anyOf } from "../../core/util/signals.js";
import { TimeLimit } from "../../core/util/time-limit.js";

export interface HttpOptions {
  /** HF_ENDPOINT: `https://huggingface.co` or a mirror. */
  readonly endpoint: string;
  /** HF_TOKEN. Sent to the endpoint only, never to where it redirects. */
  readonly token: string | undefined;
  /** HF_HUB_OFFLINE: no request is made. */
  readonly offline: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds without a byte after which a connection counts as dead. */
  readonly stallTimeout?: number;
  /** Milliseconds before the first retry; doubled after each without new bytes. */
  readonly retryDelay?: number;
}

/** Maximum number of consecutive tries without new bytes. */
const MAX_FRUITLESS = 5;
const MAX_REDIRECTS = 5;
/** Longest accepted Retry-After in milliseconds; the Hub's rate limit covers five minutes. */
const MAX_PAUSE = 300_000;

/** The connection broke or the server is busy: the request is retried. */
export class Interrupted extends Error {
  constructor(
    message: string,
    /** Milliseconds to wait as requested by the server. */
    readonly pause = 0,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A definite refusal; a retry would get the same answer. */
export class HubRefusal extends HoneError {
  constructor(
    readonly place: string,
    readonly status: number,
    /** `X-Error-Code`: "GatedRepo", "RepoNotFound", "RevisionNotFound", "EntryNotFound"; "" where it has none. */
    readonly code: string,
  ) {
    super(`${place} answered ${status}: check HF_ENDPOINT`);
  }
}

/** The endpoint could not be reached at all. */
export class HubUnreachable extends HoneError {}

/** A response, with its headers and those of the redirects before it; the first of a name counts. */
export interface Answer {
  readonly response: Response;
  readonly headers: ReadonlyMap<string, string>;
}

/** Callbacks while the body is read. */
export interface Reception {
  /** Bytes arrived: resets the stall timer. */
  received(): void;
  /** New bytes arrived: resets the count of fruitless tries. */
  advanced(): void;
}

export const rootOf = ({ endpoint }: Pick<HttpOptions, "endpoint">) => endpoint.replace(/\/+$/, "");

/**
 * Sends a request and processes its answer; repeats both, with increasing pauses, when the connection breaks.
 *
 * @param use reads the body and reports progress
 * @throws HubRefusal when the server refuses
 * @throws HubUnreachable when it cannot be reached
 * @throws the signal's reason when it is aborted
 */
export async function exchange<T>(
  request: () => { url: string; method: "GET" | "HEAD"; headers?: Record<string, string> },
  options: HttpOptions,
  use: (answer: Answer, reception: Reception) => Promise<T>,
): Promise<T> {
  const { signal, stallTimeout = 30_000, retryDelay = 500 } = options;
  if (options.offline) throw new Error("a request was about to be made with HF_HUB_OFFLINE set");
  for (let fruitless = 0; ; fruitless++) {
    using stall = new TimeLimit(stallTimeout / 1000, () => undefined);
    using either = anyOf([stall.signal, ...(signal ? [signal] : [])]);
    let interruption: Interrupted;
    try {
      return await use(await follow(request(), options, either.signal), {
        received: () => stall.renew(),
        advanced: () => {
          fruitless = 0;
        },
      });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      interruption = asInterruption(error, stall.signal.aborted);
    }
    if (fruitless >= MAX_FRUITLESS) {
      throw new HubUnreachable(
        `${rootOf(options)} cannot be reached (${interruption.message}): set HF_ENDPOINT to a mirror`,
        { cause: interruption },
      );
    }
    const pause = Math.max(retryDelay * 2 ** fruitless, Math.min(interruption.pause, MAX_PAUSE));
    await sleep(pause, undefined, signal ? { signal } : {}).catch(() => {
      // Only an abort ends the pause early.
      throw signal?.reason;
    });
  }
}

/** The error as {@link Interrupted} if a retry makes sense. Everything else (a full disk, a refusal) is thrown on. */
function asInterruption(error: unknown, stalled: boolean): Interrupted {
  if (stalled) return new Interrupted("nothing came for too long");
  if (error instanceof Interrupted) return error;
  // fetch throws TypeError for every network error, with the reason as its cause.
  if (error instanceof TypeError) return new Interrupted(messageOf(error.cause ?? error), 0, { cause: error });
  throw error;
}

async function follow(
  { url, method, headers }: { url: string; method: string; headers?: Record<string, string> },
  options: HttpOptions,
  signal: AbortSignal,
): Promise<Answer> {
  const home = new URL(rootOf(options)).origin;
  const seen = new Map<string, string>();
  let at = new URL(url);
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const authorization = options.token && at.origin === home ? { authorization: `Bearer ${options.token}` } : {};
    const response = await fetch(at, {
      method,
      // With compression a range would refer to the compressed bytes.
      headers: { "accept-encoding": "identity", "user-agent": "hone", ...headers, ...authorization },
      redirect: "manual",
      signal,
    });
    for (const [name, value] of response.headers) if (!seen.has(name)) seen.set(name, value);
    const location = response.headers.get("location");
    if (response.ok) return { response, headers: seen };
    await response.body?.cancel();
    if (response.status >= 400 || !location) throw refusal(at, response);
    at = new URL(location, at);
  }
  throw new HoneError(`${url} redirects in a circle`);
}

function refusal(url: URL, { status, headers }: Response): Error {
  const place = `${url.origin}${url.pathname}`;
  if (status === 429 || status >= 500) {
    const seconds = Number(headers.get("retry-after") ?? 0);
    return new Interrupted(`${place} answered ${status}`, Number.isFinite(seconds) ? seconds * 1000 : 0);
  }
  return new HubRefusal(place, status, headers.get("x-error-code") ?? "");
}

/**
 * HTTP client for the Hugging Face Hub and its mirrors. Handles broken or stalled connections and busy servers, and tells what
 * helps against a refusal.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { anyOf } from "../../core/util/signals.js";
import { TimeLimit } from "../../core/util/time-limit.js";
import type { Repository } from "./cache.js";
import { type HubOptions, rootOf } from "./hub-options.js";

/** Maximum number of consecutive tries without new bytes. */
const MAX_FRUITLESS = 5;
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

/** The endpoint could not be reached at all. */
export class HubUnreachable extends HoneError {}

/** To an address of the endpoint, about a repository. */
export interface HubRequest {
  readonly url: string;
  readonly method?: "HEAD";
  readonly headers?: Readonly<Record<string, string>>;
  readonly repository: Repository;
  readonly revision: string;
}

/** The address of a repository's page: that of "a/b", or of "datasets/a/b". */
export const pageOf = ({ kind, id }: Repository, options: HubOptions) =>
  `${rootOf(options)}/${kind === "dataset" ? `datasets/${id}` : id}`;

/**
 * Sends a request and processes its answer; repeats both, with increasing pauses, when the connection breaks.
 *
 * @param use reads the body and tells when bytes arrive: the connection then is no dead one; tries count anew after new bytes
 * @throws HoneError when the server refuses, with the reason and how to get access
 * @throws HubUnreachable when it cannot be reached
 * @throws the signal's reason when it is aborted
 */
export async function exchange<T>(
  request: () => HubRequest,
  options: HubOptions,
  use: (response: Response, received: (isNew: boolean) => void) => Promise<T>,
): Promise<T> {
  const { signal, stallTimeout = 30_000, retryDelay = 500 } = options;
  if (options.offline) throw new Error("a request was about to be made with HF_HUB_OFFLINE set");
  for (let fruitless = 0; ; fruitless++) {
    using stall = new TimeLimit(stallTimeout / 1000, () => undefined);
    using either = anyOf([stall.signal, ...(signal ? [signal] : [])]);
    let interruption: Interrupted;
    try {
      return await use(await send(request(), options, either.signal), (isNew) => {
        stall.renew();
        if (isNew) fruitless = 0;
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

async function send(request: HubRequest, options: HubOptions, signal: AbortSignal): Promise<Response> {
  const { url, method = "GET", headers } = request;
  const authorization = options.token ? { authorization: `Bearer ${options.token}` } : {};
  const response = await fetch(url, {
    method,
    // With compression a range would refer to the compressed bytes.
    headers: { "accept-encoding": "identity", "user-agent": "hone", ...headers, ...authorization },
    // fetch takes the token out where it follows to another host. Of a file that is there the Hub itself tells size and checksum.
    redirect: method === "HEAD" ? "manual" : "follow",
    signal,
  });
  if (response.ok || (method === "HEAD" && response.headers.has("location"))) return response;
  await response.body?.cancel();
  throw refusal(request, response, options);
}

/** A busy server is asked again; of another refusal a retry would get the same. */
function refusal({ repository, revision }: HubRequest, { url, status, headers }: Response, options: HubOptions): Error {
  const { origin, pathname } = new URL(url);
  const place = `${origin}${pathname}`;
  if (status === 429 || status >= 500) {
    const seconds = Number(headers.get("retry-after") ?? 0);
    return new Interrupted(`${place} answered ${status}`, Number.isFinite(seconds) ? seconds * 1000 : 0);
  }
  const { kind, id } = repository;
  const root = rootOf(options);
  const code = headers.get("x-error-code") ?? "";
  if (code === "GatedRepo") {
    const tokens = `${new URL(root).origin}/settings/tokens`;
    const sent = options.token === undefined ? "" : "; the token that was sent has no access";
    return new HoneError(
      `${id} is gated: accept its conditions at ${pageOf(repository, options)}, then set HF_TOKEN to a token of that account (${tokens})${sent}`,
    );
  }
  if (code === "RevisionNotFound") return new HoneError(`${id} has no revision ${revision} at ${root}`);
  const token = options.token === undefined ? "no token was sent" : "the token that was sent may not read it";
  if (code === "RepoNotFound" || (status === 404 && code === "")) {
    const noun = kind === "model" ? "model" : "data set";
    return new HoneError(
      `there is no ${noun} ${id} at ${root}, or it is private (${token}): check the name, HF_ENDPOINT and HF_TOKEN`,
    );
  }
  if (status !== 401 && status !== 403) return new HoneError(`${place} answered ${status}: check HF_ENDPOINT`);
  return new HoneError(`${place} refused (${status}), ${token}: set HF_TOKEN to a token that may read ${id}`);
}

/**
 * HTTP endpoint over models of this process, in the dialects of OpenAI and Anthropic, on loopback only. Uses Node's own
 * HTTP server: so few routes do not justify the packages of a framework in every installation.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { codeOf, HoneError } from "../core/util/errors.js";
import { hone } from "../core/util/program.js";
import { readAnthropicRequest, readCountRequest } from "./anthropic-request.js";
import { anthropicErrors, anthropicMessage, countTokens } from "./anthropic-route.js";
import { chatCompletion } from "./chat-route.js";
import { completion } from "./completion-route.js";
import { ApiError, type ErrorForm, forbidden, notFound, openAiErrors, shuttingDown, unauthorized } from "./errors.js";
import { Exchange, type Incoming, incomingOf, writeTo } from "./exchange.js";
import { localFetch } from "./local-fetch.js";
import { Counts, metricsText } from "./metrics.js";
import type { ServedModel } from "./model.js";
import { readChatRequest, readCompletionRequest } from "./requests.js";
import { readResponsesRequest } from "./responses-request.js";
import { respond, responsesErrors } from "./responses-route.js";
import { detokenize, readDetokenizeRequest, readTokenizeRequest, tokenize } from "./tokens-route.js";

const HOST = "127.0.0.1";
/** Maximum size of a request's body in bytes. */
const MOST_BODY = 16 << 20;
/** Seconds that running requests get to finish on shutdown. */
const GRACE = 10;
const OLLAMA = `ask /v1 in OpenAI's form, or export the model for Ollama itself: ${hone("export")} --to ollama`;
/**
 * Seconds that an idle connection is kept. Longer than clients keep theirs, so that none is closed just as it is used.
 */
const KEEP_ALIVE = 65;

export type Endpoint = Awaited<ReturnType<typeof openEndpoint>>;

export interface EndpointOptions {
  /** 0 for any free port. */
  readonly port: number;
  readonly apiKey: string | undefined;
  /** Their names are distinct. */
  readonly models: readonly ServedModel[];
  /**
   * Replaces `apiKey` and `models`: the model for a key, whatever name is requested.
   * @throws ApiError (401, 410)
   */
  readonly modelOfKey?: (key: string) => ServedModel;
}

const LOOPBACK = /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/i;

/** Web pages can reach loopback too, by DNS rebinding or from their own origin; both are refused. */
function checkOrigin({ headers }: Incoming): void {
  if (!LOOPBACK.test(headers.host ?? ""))
    throw forbidden(`this server answers at ${HOST} alone, not at ${headers.host}`);
  const { origin } = headers;
  if (origin === undefined) return;
  if (!URL.canParse(origin) || !LOOPBACK.test(new URL(origin).host)) {
    throw forbidden("this server does not answer pages of other sites");
  }
}

/** OpenAI's clients send a bearer token, Anthropic's this header. */
const keyOf = ({ headers }: Incoming) =>
  /^Bearer\s+(.*)$/i.exec(headers.authorization ?? "")?.[1] ?? String(headers["x-api-key"] ?? "");

/** The dialect in which a route answers errors. */
function errorsOf(path: string): ErrorForm {
  if (path.startsWith("/v1/messages")) return anthropicErrors;
  return path === "/v1/responses" ? responsesErrors : openAiErrors;
}

/** A request's path. Anthropic's clients append `/v1` to a base URL that others take with it. */
const pathOf = (url = "/") => (url.split("?")[0] as string).replace(/^\/v1\/v1\//, "/v1/").replace(/(.)\/$/, "$1");

/** Compares digests in constant time, so that timing reveals nothing of the key. */
function checkKey(given: string, key: string | undefined): void {
  if (key === undefined) return;
  const digest = (text: string) => createHash("sha256").update(text).digest();
  if (!timingSafeEqual(digest(given), digest(key))) throw unauthorized("the server's --api-key");
}

/** @throws HoneError when the port is taken */
export async function openEndpoint({ port, apiKey, models, modelOfKey }: EndpointOptions) {
  const counts = new Counts();
  const open = new Set<Exchange>();
  const created = Math.floor(Date.now() / 1000);
  let closing = false;
  let emptied: () => void = () => undefined;

  /** Those that the request may use. */
  const modelsFor = (request: Incoming): readonly ServedModel[] => {
    if (modelOfKey) return [modelOfKey(keyOf(request))];
    checkKey(keyOf(request), apiKey);
    return models;
  };
  const modelOf = (name: string | null | undefined, among: readonly ServedModel[]): ServedModel => {
    const found = modelOfKey || name == null ? among[0] : among.find((model) => model.names.includes(name));
    if (found) return found;
    const names = among.flatMap((model) => model.names).join(", ");
    throw notFound(`The model '${name}' does not exist; there are ${names}.`, "model_not_found");
  };
  const listed = ({ engine }: ServedModel, id: string) => ({
    id,
    object: "model",
    created,
    owned_by: "hone",
    max_model_len: engine.info.contextPerSequence,
  });

  type Route = (exchange: Exchange, models: readonly ServedModel[], rest: string) => Promise<void> | void;
  /** A request that names its model. @param read checks its body */
  const post =
    <Request extends { readonly model?: string | null | undefined }>(
      read: (body: unknown) => Request,
      answer: (model: ServedModel, request: Request, exchange: Exchange) => Promise<void> | void,
    ): Route =>
    async (exchange, models) => {
      const request = read(await exchange.body(MOST_BODY));
      await answer(modelOf(request.model, models), request, exchange);
    };
  const routes: Readonly<Record<string, Route>> = {
    "GET /health": (exchange) => exchange.json({ status: "ok" }),
    "GET /metrics": (exchange, models) =>
      exchange.send(200, "text/plain; version=0.0.4; charset=utf-8", metricsText(counts, models)),
    "GET /v1/models": (exchange, models, name) =>
      exchange.json(
        name === ""
          ? { object: "list", data: models.flatMap((model) => model.names.map((id) => listed(model, id))) }
          : listed(modelOf(name, models), name),
      ),
    "POST /v1/chat/completions": post(readChatRequest, chatCompletion),
    "POST /v1/completions": post(readCompletionRequest, completion),
    "POST /v1/responses": post(readResponsesRequest, respond),
    "POST /v1/messages": post(readAnthropicRequest, anthropicMessage),
    "POST /v1/messages/count_tokens": post(readCountRequest, countTokens),
    "POST /v1/embeddings": () => {
      throw notFound("There are no embeddings: the models here write text.", "unsupported_endpoint");
    },
    "POST /tokenize": post(readTokenizeRequest, tokenize),
    "POST /detokenize": post(readDetokenizeRequest, detokenize),
  };

  /** The route's name, and the rest of the path. */
  const routeOf = ({ method, url }: Incoming): [name: string, rest: string] => {
    const path = pathOf(url);
    const model = /^\/v1\/models\/(.+)$/.exec(path)?.[1];
    const plain = model === undefined ? path : "/v1/models";
    const name = `${method} ${plain}`;
    if (Object.hasOwn(routes, name)) return [name, model === undefined ? "" : decode(model)];
    const others = Object.keys(routes).filter((route) => route.endsWith(` ${plain}`));
    if (path.startsWith("/api/")) throw notFound(`${path} is Ollama's: ${OLLAMA}`);
    const meant = Object.hasOwn(routes, `${method} /v1${path}`) ? `; it is /v1${path}` : "";
    if (others.length === 0) throw notFound(`Invalid URL (${method} ${path})${meant}`);
    const methods = others.map((route) => route.split(" ")[0]).join(", ");
    throw new ApiError(405, "invalid_request_error", `Not allowed: ${method} ${path}; it takes ${methods}`);
  };

  const serve = async (exchange: Exchange): Promise<void> => {
    let name = "unknown";
    let allowed: readonly ServedModel[] = [];
    exchange.errors = errorsOf(pathOf(exchange.request.url));
    try {
      checkOrigin(exchange.request);
      const [route, rest] = routeOf(exchange.request);
      name = route.split(" ")[1] as string;
      if (closing) throw shuttingDown();
      // Health checks need no key.
      if (name !== "/health") allowed = modelsFor(exchange.request);
      await (routes[route] as Route)(exchange, allowed, rest);
    } catch (error) {
      if (!exchange.signal.aborted) for (const model of allowed) model.onError(error);
      exchange.fail(exchange.signal.aborted ? exchange.signal.reason : error);
    } finally {
      counts.request(name, exchange.status);
    }
  };

  const cancelled = () => {
    counts.cancelled++;
  };
  /** @param written when nothing of the response is to be written any more */
  const take = async (exchange: Exchange, written?: Promise<void>): Promise<void> => {
    open.add(exchange);
    await serve(exchange);
    await written;
    open.delete(exchange);
    if (open.size === 0) emptied();
  };
  const server = createServer((request, response) => {
    const exchange = new Exchange(incomingOf(request), cancelled);
    void take(exchange, writeTo(response, exchange));
  });
  server.keepAliveTimeout = KEEP_ALIVE * 1000;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, HOST, resolve);
  }).catch((error: unknown) => {
    const code = codeOf(error);
    if (code === "EADDRINUSE") {
      throw new HoneError(`port ${port} is taken; give another --port, or 0 for any that is free`, { cause: error });
    }
    if (code === "EACCES") throw new HoneError(`port ${port} needs rights that this user lacks; give another --port`);
    throw error;
  });
  const at = (server.address() as AddressInfo).port;
  return {
    url: `http://${HOST}:${at}/v1`,
    /** For code on this thread: answers a request to `url` as `fetch` does, without a connection. */
    fetch: localFetch(`http://${HOST}:${at}`, (request) => {
      const exchange = new Exchange(request, cancelled);
      return { exchange, ended: take(exchange) };
    }),
    /** Stops accepting requests, lets running ones finish, and aborts them after the grace period. */
    async close(graceSeconds = GRACE): Promise<void> {
      closing = true;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const empty = new Promise<void>((resolve) => {
        emptied = resolve;
        if (open.size === 0) resolve();
      });
      const timer = setTimeout(() => {
        for (const exchange of open) exchange.abort(shuttingDown());
      }, graceSeconds * 1000);
      await empty;
      clearTimeout(timer);
      server.closeAllConnections();
      await closed;
      for (const model of models) model.close();
    },
  };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // An invalid escape: no known name has one, and the error quotes the text as it is.
    return text;
  }
}

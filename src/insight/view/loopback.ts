/**
 * A server of one page, on loopback only, for this machine's own browser. A page of another site can reach loopback too, so a
 * request must name this server as its host (against DNS rebinding) and come from no other origin.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzip } from "node:zlib";
import { codeOf, HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { toJson } from "../../core/util/json.js";
import type { Page } from "./page.js";

const HOST = "127.0.0.1";
const NOTHING_THERE = "there is nothing at this address";
/** Bytes of what a page sends at most. */
const MOST = 1 << 20;

export interface LiveServer {
  readonly url: string;
  close(): Promise<void>;
}

/** What is behind a page. */
export interface Behind {
  /** undefined for an unknown address. */
  get(url: URL): Promise<object | undefined>;
  /**
   * Changes something. Without it the page only reads.
   * @throws HoneError where what was sent is refused
   */
  post?(url: URL, sent: unknown): Promise<object | undefined>;
}

/** Whether the request comes from this page, or from an address typed on this machine. */
export function isOwn(headers: IncomingMessage["headers"], port: number): boolean {
  const names = [HOST, "localhost"];
  // The default port, which browsers omit.
  const hosts = [...names.map((name) => `${name}:${port}`), ...(port === 80 ? names : [])];
  if (!hosts.includes(headers.host ?? "")) return false;
  const { origin, "sec-fetch-site": site } = headers;
  if (origin !== undefined && !hosts.some((host) => origin === `http://${host}`)) return false;
  return site === undefined || site === "same-origin" || site === "none";
}

function answer(response: ServerResponse, status: number, type: string, text: string, more: object = {}): void {
  const headers = {
    "content-type": `${type}; charset=utf-8`,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    ...more,
  };
  // The fastest level: a run's rows are megabytes with repeated names.
  gzip(text, { level: 1 }, (error, packed) => {
    if (error) response.destroy(error);
    else response.writeHead(status, { ...headers, "content-encoding": "gzip" }).end(packed);
  });
}

/** @throws UsageError for what is no JSON, or too long */
async function sentWith(request: IncomingMessage): Promise<unknown> {
  // A form of another site cannot send this type without asking first.
  if (!/^application\/json\b/.test(request.headers["content-type"] ?? "")) throw new UsageError("only JSON is taken");
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    // Read to its end all the same: an answer before it would break the connection.
    if (bytes <= MOST) chunks.push(chunk);
  }
  if (bytes > MOST) throw new UsageError(`more than ${MOST >> 20} MiB were sent`);
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw new UsageError("what was sent is no JSON");
  }
}

/** @param port 0 for any free port. @throws HoneError when the port is taken */
export async function servePage({ html, policy }: Page, behind: Behind, port: number): Promise<LiveServer> {
  const server: Server = createServer((request, response) => {
    const address = server.address() as AddressInfo;
    if (!isOwn(request.headers, address.port)) {
      const { port } = address;
      const forward = `ssh -L ${port}:${HOST}:${port} MACHINE`;
      const why = `this page is for the browser of its own machine, at ${HOST}:${port}; from another one forward the same port number: ${forward}`;
      answer(response, 403, "text/plain", why);
      return;
    }
    const allowed = behind.post ? ["GET", "POST"] : ["GET"];
    if (!allowed.includes(request.method ?? "")) {
      answer(response, 405, "text/plain", `only ${allowed.join(" and ")}`, { allow: allowed.join(", ") });
      return;
    }
    const path = request.url ?? "/";
    const base = `http://${HOST}`;
    // A path such as "//" is not a valid URL.
    if (!URL.canParse(path, base)) {
      answer(response, 404, "text/plain", NOTHING_THERE);
      return;
    }
    const url = new URL(path, base);
    const isPost = request.method === "POST";
    if (url.pathname === "/" && !isPost) {
      answer(response, 200, "text/html", html, { "content-security-policy": `${policy}; frame-ancestors 'none'` });
      return;
    }
    const result = isPost ? sentWith(request).then((sent) => behind.post?.(url, sent)) : behind.get(url);
    const written = result.then((found) => found && toJson(found));
    written.then(
      (json) => {
        if (json === undefined) answer(response, 404, "text/plain", NOTHING_THERE);
        else answer(response, 200, "application/json", json);
      },
      (error: unknown) => answer(response, error instanceof UsageError ? 400 : 500, "text/plain", messageOf(error)),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(port, HOST, resolve);
  }).catch((error: unknown) => {
    if (codeOf(error) !== "EADDRINUSE") throw error;
    throw new HoneError(`port ${port} is taken; give another --port, or none for any that is free`, { cause: error });
  });
  return {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

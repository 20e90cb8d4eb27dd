/**
 * The live page: on loopback only, for this machine's own browser. A page of another site can reach loopback too, so a
 * request must name this server as its host (against DNS rebinding) and come from no other origin.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzip } from "node:zlib";
import { codeOf, HoneError, messageOf } from "../util/index.js";
import { pageOf } from "./page.js";
import type { SeenRun } from "./runs.js";

const HOST = "127.0.0.1";
const NOTHING_THERE = "there is nothing at this address";

export interface LiveServer {
  readonly url: string;
  close(): Promise<void>;
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

/** undefined for an unknown address. */
async function resultOf(url: URL, runs: readonly SeenRun[]): Promise<object | undefined> {
  const number = (name: string) => Number(url.searchParams.get(name) ?? Number.NaN);
  if (url.pathname === "/api/runs") return await Promise.all(runs.map((run) => run.view()));
  if (url.pathname === "/api/revisions") return runs.map((run) => run.revision());
  const run = runs[number("run")];
  if (url.pathname === "/api/rows") return run?.rows(number("from") || 0);
  if (url.pathname === "/api/rollout") return (await run?.body(number("id"))) ?? undefined;
  return undefined;
}

/**
 * @param port 0 for any free port
 * @throws HoneError when the port is taken, or the page has not been built
 */
export async function serveRuns(runs: readonly SeenRun[], port: number): Promise<LiveServer> {
  const { html, policy } = pageOf(`${runs.map(({ name }) => name).join(", ")} · hone`, "self", []);
  const server: Server = createServer((request, response) => {
    const address = server.address() as AddressInfo;
    if (!isOwn(request.headers, address.port)) {
      const { port } = address;
      const forward = `ssh -L ${port}:${HOST}:${port} MACHINE`;
      const why = `this page is for the browser of its own machine, at ${HOST}:${port}; from another one forward the same port number: ${forward}`;
      answer(response, 403, "text/plain", why);
      return;
    }
    if (request.method !== "GET") {
      answer(response, 405, "text/plain", "only GET", { allow: "GET" });
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
    if (url.pathname === "/") {
      answer(response, 200, "text/html", html, { "content-security-policy": `${policy}; frame-ancestors 'none'` });
      return;
    }
    resultOf(url, runs).then(
      (result) => {
        if (result === undefined) answer(response, 404, "text/plain", NOTHING_THERE);
        else answer(response, 200, "application/json", JSON.stringify(result));
      },
      (error: unknown) => answer(response, 500, "text/plain", messageOf(error)),
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

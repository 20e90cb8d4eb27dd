/**
 * A server on loopback that behaves like the Hugging Face Hub for models and data sets: listings, `resolve` addresses
 * that redirect to a second host for large files, ranges, ETags, the Hub's own headers and error codes; and takes files
 * (hub-uploads.ts). Its misbehaviour can be configured.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { endless } from "./endless.js";
import { HubUploads } from "./hub-uploads.js";

export interface HubRequest {
  readonly host: "hub" | "cdn";
  readonly method: string;
  readonly path: string;
  readonly range: string | undefined;
  readonly authorization: string | undefined;
}

export interface Misbehaviour {
  /** Bytes after which the connection is cut: one number per answer with content, in order. */
  cuts?: number[];
  /** Bytes that the client has kept of the file: a cut waits for all before it, which it may swallow otherwise. */
  kept?: () => number;
  /** Status of the next answers, in order. */
  statuses?: number[];
  /** Every answer has the whole file, whatever range was requested. */
  noRanges?: boolean;
  /** The listing has names only, as on some mirrors. */
  noBlobs?: boolean;
  /** A redirect says nothing of the file's size. */
  noSize?: boolean;
  /** The listing never ends. */
  endless?: boolean;
  /** Sends headers, then nothing. */
  silent?: boolean;
  /** Sent instead of the content, with the same length. */
  damage?: boolean;
  /** Replaces each file's content. */
  instead?: Buffer;
  /** Leaves out the length of the content. */
  noLength?: boolean;
  /** Requests without this token are refused. */
  token?: string;
  /** Gated repositories: refused without this token, that of an account which has accepted the conditions. */
  gated?: Readonly<Record<string, string>>;
  /** Seconds to wait that the next "busy" answers request. */
  retryAfter?: number;
}

export const revision = "0123456789abcdef0123456789abcdef01234567";
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");
const gitBlob = (bytes: Buffer) => createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex");

/** Files of this size or more are stored as the Hub stores large files. */
const LARGE = 1000;

export class HubServer {
  readonly requests: HubRequest[] = [];
  behave: Misbehaviour = {};
  readonly uploads = new HubUploads();
  /** GGUF metadata in the listing. */
  gguf: object = { architecture: "qwen2" };
  readonly #files: Readonly<Record<string, Readonly<Record<string, Buffer>>>>;
  readonly #hub = createServer((request, response) => this.#answer("hub", request, response));
  readonly #cdn = createServer((request, response) => this.#answer("cdn", request, response));

  /** @param files by repository and path */
  constructor(files: Readonly<Record<string, Readonly<Record<string, Buffer>>>>) {
    this.#files = files;
  }

  async start(): Promise<void> {
    for (const server of [this.#hub, this.#cdn]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    }
  }

  async stop(): Promise<void> {
    for (const server of [this.#hub, this.#cdn]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }

  get endpoint(): string {
    return this.#address(this.#hub);
  }

  #address(server: Server): string {
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  #answer(host: "hub" | "cdn", request: IncomingMessage, response: ServerResponse): void {
    const path = decodeURIComponent(request.url ?? "");
    const { range, authorization } = request.headers;
    this.requests.push({ host, method: request.method ?? "", path, range, authorization });
    const status = this.behave.statuses?.shift();
    if (status) {
      const { retryAfter } = this.behave;
      if (retryAfter !== undefined) response.setHeader("retry-after", retryAfter);
      return void response.writeHead(status).end();
    }
    if (host === "hub" && this.behave.token && authorization !== `Bearer ${this.behave.token}`) {
      return void response.writeHead(401).end();
    }
    if (request.method === "POST" || request.method === "PUT") {
      return void this.uploads.answer(request, response, { hub: this.endpoint, cdn: this.#address(this.#cdn) });
    }
    // The answer of a captive portal or a company's proxy.
    if (path.startsWith("/portal")) return void response.end("<html>Please log in</html>");
    const refuse = (status: number, code: string) =>
      response.writeHead(status, { "x-error-code": code, "x-error-message": `${code} for ${path}` }).end();
    const api = /^\/api\/(?:datasets|models)\/([^/]+\/[^/?]+)(?:\/revision\/([^?]+))?(?:\?.*)?$/.exec(path);
    const file = /^\/(?:datasets\/)?([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path);
    const [, repository = "", asked = "main", inside] = api ?? file ?? [];
    const files = this.#files[repository] ?? this.uploads.files[repository];
    // Like the Hub: without access a private repository looks like a missing one.
    if (!files) return void refuse(authorization ? 404 : 401, "RepoNotFound");
    if (!["main", revision].includes(asked)) return void refuse(404, "RevisionNotFound");
    const key = this.behave.gated?.[repository];
    // The listing of a gated repository is public, its files are not.
    if (host === "hub" && key !== undefined && inside !== undefined && authorization !== `Bearer ${key}`) {
      return void refuse(authorization ? 403 : 401, "GatedRepo");
    }
    if (inside === undefined && this.behave.endless) return void endless(response, '{"siblings": [');
    if (inside === undefined) return void response.end(JSON.stringify(this.#listing(files, repository)));
    const content = files[inside];
    if (!content) return void refuse(404, "EntryNotFound");
    if (host === "hub" && content.length >= LARGE) {
      const headers = {
        "x-repo-commit": revision,
        "x-linked-etag": `"${sha256(content)}"`,
        ...(this.behave.noSize ? { "content-length": 0 } : { "x-linked-size": content.length }),
      };
      return void response.writeHead(302, { ...headers, location: this.#address(this.#cdn) + request.url }).end();
    }
    this.#send(content, request, response);
  }

  #listing(files: Readonly<Record<string, Buffer>>, id: string): object {
    const siblings = Object.entries(files).map(([rfilename, content]) => {
      if (this.behave.noBlobs) return { rfilename };
      const file = { rfilename, size: content.length, blobId: gitBlob(content) };
      return content.length >= LARGE ? { ...file, lfs: { sha256: sha256(content), size: content.length } } : file;
    });
    const about = Object.keys(files).some((name) => name.endsWith(".gguf")) ? { gguf: this.gguf } : {};
    return { id, sha: revision, gated: false, private: false, tags: [], downloads: 0, siblings, ...about };
  }

  #send(content: Buffer, request: IncomingMessage, response: ServerResponse): void {
    const asked = this.behave.noRanges ? undefined : /^bytes=(\d+)-$/.exec(request.headers.range ?? "")?.[1];
    const start = Number(asked ?? 0);
    const whole = this.behave.instead ?? (this.behave.damage ? Buffer.alloc(content.length, 1) : content);
    const part = whole.subarray(start);
    response.writeHead(asked ? 206 : 200, {
      "x-repo-commit": revision,
      etag: `"${content.length >= LARGE ? sha256(content) : gitBlob(content)}"`,
      ...(this.behave.noLength ? {} : { "content-length": part.length }),
      ...(asked ? { "content-range": `bytes ${start}-${content.length - 1}/${content.length}` } : {}),
    });
    if (request.method === "HEAD") return void response.end();
    if (this.behave.silent) return void response.flushHeaders();
    const cut = this.behave.cuts?.shift();
    if (cut === undefined) response.end(part);
    else response.write(part.subarray(0, cut), () => void this.#cut(response, start + cut));
  }

  async #cut(response: ServerResponse, sent: number): Promise<void> {
    const { kept } = this.behave;
    while (kept && kept() < sent && !response.destroyed) await sleep(1);
    response.destroy();
  }
}

/**
 * Uploads to the Hub in the protocol of huggingface_hub: a repository is created, large files go by Git LFS to another
 * host, and a commit lists all files. Keeps everything that is sent.
 */
import type { IncomingMessage, ServerResponse } from "node:http";

const LARGE = /\.(gguf|safetensors)$/;

export class HubUploads {
  /** Created repositories, with their visibility. */
  readonly made = new Map<string, string>();
  /** Committed files, by repository and path. */
  readonly files: Record<string, Record<string, Buffer>> = {};
  /** Errors to return: a status for each path that contains this text. */
  refuse: Readonly<Record<string, number>> = {};
  readonly #large = new Map<string, Buffer>();

  /** @param addresses of the Hub, and of the host for large files */
  async answer(
    request: IncomingMessage,
    response: ServerResponse,
    addresses: { readonly hub: string; readonly cdn: string },
  ): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const body = Buffer.concat(parts);
    const path = decodeURIComponent(request.url ?? "");
    const json = (value: object) =>
      void response.setHeader("content-type", "application/json").end(JSON.stringify(value));
    const status = Object.entries(this.refuse).find(([text]) => path.includes(text))?.[1];
    if (status) return void response.writeHead(status).end("{}");
    if (path === "/api/repos/create") {
      const { name, organization, visibility } = JSON.parse(body.toString());
      const id = organization ? `${organization}/${name}` : name;
      this.made.set(id, visibility ?? "public");
      return json({ url: `${addresses.hub}/${id}`, id });
    }
    if (path === "/api/validate-yaml") return json({ errors: [], warnings: [] });
    const [, id = "", what] = /^\/api\/models\/([^/]+\/[^/]+)\/(preupload|commit)\/main/.exec(path) ?? [];
    if (what === "preupload") {
      const { files } = JSON.parse(body.toString()) as { files: { path: string }[] };
      const mode = (file: string) => (LARGE.test(file) ? "lfs" : "regular");
      return json({
        files: files.map((file) => ({ path: file.path, uploadMode: mode(file.path), shouldIgnore: false })),
      });
    }
    if (what === "commit") {
      this.#commit(id, body.toString());
      return json({
        success: true,
        commitOid: "0".repeat(40),
        commitUrl: `${addresses.hub}/${id}/commit/${"0".repeat(40)}`,
      });
    }
    if (path.endsWith(".git/info/lfs/objects/batch")) {
      const { objects } = JSON.parse(body.toString()) as { objects: { oid: string; size: number }[] };
      const actions = (oid: string) => ({
        upload: { href: `${addresses.cdn}/put/${oid}` },
        verify: { href: `${addresses.cdn}/verify/${oid}` },
      });
      return json({ transfer: "basic", objects: objects.map((one) => ({ ...one, actions: actions(one.oid) })) });
    }
    const oid = /^\/put\/(\w+)/.exec(path)?.[1];
    if (oid) this.#large.set(oid, body);
    if (oid || path.startsWith("/verify/")) return json({});
    response.writeHead(404).end("{}");
  }

  /** JSON lines: a header, and a line for each file. */
  #commit(id: string, lines: string): void {
    this.files[id] ??= {};
    const files = this.files[id];
    for (const { key, value } of lines
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line))) {
      if (key === "file") files[value.path] = Buffer.from(value.content, value.encoding);
      if (key === "lfsFile") files[value.path] = this.#large.get(value.oid) as Buffer;
    }
  }
}

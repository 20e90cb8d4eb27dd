/** A W&B server on loopback, as far as its client asks for: it keeps what runs send it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

export interface SeenRun {
  /** Rows of the history by their step. */
  readonly history: Record<string, unknown>[];
  config: Record<string, { value: unknown }>;
  /** Artifacts that were handed in, as NAME:ALIAS,ALIAS. */
  readonly artifacts: string[];
}

export async function wandbServer(answers: (path: string) => boolean = () => true) {
  const runs = new Map<string, SeenRun>();
  const asked: string[] = [];
  const runOf = (name: string): SeenRun => {
    const run = runs.get(name) ?? { history: [], config: {}, artifacts: [] };
    runs.set(name, run);
    return run;
  };
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const raw = Buffer.concat(chunks);
    const text = (request.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw).toString("utf8");
    const path = request.url ?? "";
    asked.push(`${request.method} ${path}`);
    // One that hangs.
    if (!answers(path)) return;
    const say = (value: object) =>
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(value));
    if (path.startsWith("/graphql")) say({ data: graphql(JSON.parse(text), runOf, address()) });
    else if (path.includes("/file_stream")) {
      const name = path.split("/").at(-2) ?? "";
      const lines = JSON.parse(text).files?.["wandb-history.jsonl"]?.content ?? [];
      runOf(name).history.push(...lines.map((line: string) => JSON.parse(line)));
      say({});
    } else say({});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: address(),
    runs,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      }),
  };
}

interface ArtifactInput {
  readonly artifactCollectionName: string;
  readonly runName: string;
  readonly aliases: readonly { readonly alias: string }[];
}

interface Query {
  readonly query: string;
  readonly variables?: Record<string, unknown>;
}

function graphql({ query, variables = {} }: Query, runOf: (name: string) => SeenRun, address: string): object {
  const name = String(variables.name ?? "");
  const entity = { name: "people", id: "e" };
  const project = { name: String(variables.project ?? "p"), id: "p", entity };
  if (query.includes("upsertBucket")) {
    const run = runOf(name);
    if (typeof variables.config === "string") run.config = { ...run.config, ...JSON.parse(variables.config) };
    const bucket = {
      id: `id-${name}`,
      name,
      displayName: name,
      config: "{}",
      sweepName: null,
      project,
      historyLineCount: 0,
    };
    return { upsertBucket: { bucket, inserted: true } };
  }
  if (query.includes("createArtifact(")) {
    const {
      artifactCollectionName = "",
      runName = "",
      aliases = [],
    } = (variables.input ?? {}) as Partial<ArtifactInput>;
    runOf(runName).artifacts.push(
      `${artifactCollectionName}:${aliases
        .map(({ alias }) => alias)
        .sort()
        .join()}`,
    );
    const artifact = { id: "a", state: "PENDING", artifactSequence: { id: "s", latestArtifact: null } };
    return { createArtifact: { artifact } };
  }
  if (query.includes("query ArtifactType")) return { project: null };
  if (query.includes("viewer")) {
    return { viewer: { id: "u", entity: "people", username: "people", flags: "{}", teams: { edges: [] } } };
  }
  if (query.includes("createRunFiles")) {
    const files = ((variables.files ?? []) as string[]).map((file) => ({
      name: file,
      uploadUrl: `${address}/upload/${file}`,
    }));
    return { createRunFiles: { runID: `id-${name}`, uploadHeaders: [], files } };
  }
  if (query.includes("serverInfo")) {
    return { serverInfo: { cliVersionInfo: { max_cli_version: "9.0.0" }, latestLocalVersionInfo: null, features: [] } };
  }
  return {};
}

/** The live page of runs. */
import { type LiveServer, servePage } from "./loopback.js";
import { pageOf } from "./page.js";
import type { SeenRun } from "./runs.js";

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
export function serveRuns(runs: readonly SeenRun[], port: number): Promise<LiveServer> {
  const page = pageOf(`${runs.map(({ name }) => name).join(", ")} · hone`, "self", []);
  return servePage(page, { get: (url) => resultOf(url, runs) }, port);
}

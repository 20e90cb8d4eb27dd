/** Servers for tests, and what is left of their processes. */
import { mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StdioSpec } from "../../../src/agent/mcp/stdio.js";

const require = createRequire(import.meta.url);
export const oddServer = fileURLToPath(new URL("odd-server.mjs", import.meta.url));

/** A word for a command line that no other run of these tests on this machine has. */
export const markOf = (name: string) => `mark-${process.pid}-${name}`;

export const temporary = () => mkdtempSync(join(tmpdir(), "hone-mcp-"));

/** A program of node's as a server; arguments and environment as given. */
export const nodeServer = (name: string, args: string[], env: Record<string, string> = {}): StdioSpec => ({
  name,
  kind: "stdio",
  command: process.execPath,
  args,
  env,
  cwd: tmpdir(),
});

export const odd = (mode = "good", ...more: string[]) => nodeServer("odd", [oddServer, mode, ...more]);

/** The program of a published server. */
export const published = (name: string) =>
  join(dirname(require.resolve(`@modelcontextprotocol/server-${name}/package.json`)), "dist/index.js");

/** Processes on this machine whose command line has a text. */
export function processesWith(text: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((pid) => {
      try {
        return readFileSync(join("/proc", pid, "cmdline"), "utf8")
          .replaceAll("\0", " ")
          .includes(text);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** Waits for a condition; it is the test's own deadline that ends it otherwise. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((done) => setTimeout(done, 50));
}

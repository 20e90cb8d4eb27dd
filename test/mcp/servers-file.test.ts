import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { readServersFile } from "../../src/agent/mcp/servers-file.js";
import { UsageError } from "../../src/core/util/errors.js";

const written = (content: unknown, name = "servers.json") => {
  const file = join(mkdtempSync(join(tmpdir(), "hone-mcp-file-")), name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
};
afterEach(() => void vi.unstubAllEnvs());

/** The file's own syntax, which JavaScript would take for its own. */
const v = (name: string) => `$\{${name}}`;

it("reads Claude Desktop's form, beside whatever else that program keeps there", () => {
  const file = written({
    globalShortcut: "",
    mcpServers: {
      files: { command: "npx", args: ["-y", "server", 8080], env: { PORT: 1, QUIET: true }, autoApprove: ["read"] },
      off: { command: "npx", disabled: true },
    },
  });
  expect(readServersFile(file)).toEqual([
    {
      name: "files",
      kind: "stdio",
      command: "npx",
      args: ["-y", "server", "8080"],
      env: { PORT: "1", QUIET: "true" },
      cwd: dirname(file),
    },
  ]);
});

it("expands variables as Claude Code and Cursor do", () => {
  vi.stubEnv("HONE_TEST_KEY", "secret");
  vi.stubEnv("HONE_TEST_NONE", undefined);
  const file = written(
    {
      mcpServers: {
        a: {
          command: `${v("userHome")}/bin/x`,
          args: [v("HONE_TEST_NONE:-some default"), `--in=${v("workspaceFolder")}`, v("rolloutFolder")],
          env: { KEY: v("HONE_TEST_KEY"), SAME: v("env:HONE_TEST_KEY") },
          cwd: "sub",
        },
        b: { url: "https://example.com/mcp", headers: { Authorization: `Bearer ${v("HONE_TEST_KEY")}` } },
      },
    },
    ".cursor/mcp.json",
  );
  const workspace = dirname(dirname(file));
  expect(readServersFile(file)).toEqual([
    {
      name: "a",
      kind: "stdio",
      command: `${homedir()}/bin/x`,
      args: ["some default", `--in=${workspace}`, v("rolloutFolder")],
      env: { KEY: "secret", SAME: "secret" },
      cwd: join(workspace, "sub"),
    },
    { name: "b", kind: "http", url: "https://example.com/mcp", headers: { Authorization: "Bearer secret" } },
  ]);
});

it("reads VS Code's form, with comments, inputs and an envFile", () => {
  const file = written(
    `{
      // the servers of this workspace
      "inputs": [{ "id": "level", "type": "promptString", "default": "info" }],
      "servers": {
        "a": { "type": "stdio", "command": "a", "args": ["${v("input:level")}", "http://x/*y*/",], "envFile": "${v("workspaceFolder")}/.env", },
        "b": { "type": "http", "url": "http://127.0.0.1:1/mcp" }, /* the old way */
        "c": { "type": "sse", "url": "http://127.0.0.1:1/sse" },
      },
    }`,
    ".vscode/mcp.json",
  );
  writeFileSync(join(dirname(dirname(file)), ".env"), "TOKEN='a b'\n# none\nEMPTY=\n");
  expect(readServersFile(file)).toMatchObject([
    { kind: "stdio", args: ["info", "http://x/*y*/"], env: { TOKEN: "a b", EMPTY: "" } },
    { kind: "http" },
    { kind: "sse" },
  ]);
});

const one = (server: unknown) => ({ mcpServers: { files: server } });

it.each([
  ["no such file", undefined, /ENOENT/],
  ["not JSON", "{", /is not JSON/],
  ["no servers", {}, /neither "mcpServers" nor "servers"/],
  ["none left", one({ command: "x", disabled: true }), /no server is named there, or all are disabled/],
  [
    "a misspelt key",
    one({ command: "x", arg: ["y"] }),
    /the server files: arg means nothing to hone; did you mean args\?/,
  ],
  ["both ways", one({ command: "x", url: "http://x" }), /either command .* or url/],
  ["neither way", one({ args: [] }), /either command .* or url/],
  ["a wrong type", one({ command: "x", args: "y" }), /the server files: args: .*expected array/],
  ["an address of another kind", one({ url: "ftp://x" }), /ftp:\/\/x is no http address/],
  ["a name in an address", one({ url: "http://me:pass@x" }), /the server files: a name in the url .*use headers/],
  [
    "a variable that is not set",
    one({ command: v("HONE_TEST_NONE") }),
    /command: the environment has no HONE_TEST_NONE/,
  ],
  ["a variable nobody knows", one({ command: v("file:x") }), /\$\{file:x\} is no variable that hone knows/],
  ["an input without a default", one({ command: v("input:api-key") }), /asked for; .*write \$\{env:API_KEY\}/],
  ["an envFile that is not there", one({ command: "x", envFile: "none.env" }), /the envFile .*none.env cannot be read/],
])("refuses %s in one line", (_, content, why) => {
  const file = content === undefined ? "/nowhere/servers.json" : written(content);
  expect(() => readServersFile(file)).toThrow(why);
  expect(() => readServersFile(file)).toThrow(UsageError);
});

/** Programs that a rollout cannot start say why. */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { Output } from "../../src/agent/output.js";
import { Programs } from "../../src/agent/programs.js";

const folder = mkdtempSync(join(tmpdir(), "hone-programs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const programs = new Programs({ env: {}, output: new Output(), signal: new AbortController().signal });
afterAll(() => programs.end());

test.each([
  ["no program", ["no-such-program"], "there is no program no-such-program"],
  [
    "arguments in the command",
    ["sh -c true"],
    "there is no program sh -c true; its arguments stand in a list of their own",
  ],
  ["no right to execute it", ["/etc/passwd"], "/etc/passwd is no file that may be executed"],
  ["no folder", ["sh", [], { cwd: "/no/such" }], "there is no folder /no/such to start sh in"],
] as const)("%s", async (_, asked, why) => {
  const [command, args, options] = asked;
  await expect(programs.run(command, args, options)).rejects.toThrow(why);
});

test("no interpreter", async () => {
  const script = join(folder, "agent");
  writeFileSync(script, "#!/no/such/interpreter\n");
  chmodSync(script, 0o755);
  await expect(programs.run(script)).rejects.toThrow(/agent ended with code 12[67]: .*agent/);
});

test.each([
  [undefined, "127.0.0.1"],
  ["example.com", "example.com,127.0.0.1"],
  ["*", "*"],
])("ask the rollout's endpoint directly, where a proxy is set and NO_PROXY is %s", async (set, said) => {
  vi.stubEnv("NO_PROXY", set);
  vi.stubEnv("no_proxy", undefined);
  const { stdout } = await programs.run("sh", ["-c", 'echo "$NO_PROXY $no_proxy"']);
  vi.unstubAllEnvs();
  expect(stdout).toBe(`${said} ${said}\n`);
});

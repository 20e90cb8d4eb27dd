/** What happens when the addon or the llama.cpp beside it is not what hone was built for. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadAddon } from "../../src/engine/addon.js";

const folder = mkdtempSync(join(tmpdir(), "hone-addon-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Builds a libllama that has every function the addon looks for, except `without`, and runs `bind` beside it. */
function bindTo(version: string, without?: string): string {
  const header = readFileSync(join(packageRoot, "native/engine/libllama.h"), "utf8");
  const names = [...header.matchAll(/X\((\w+)\)/g)].map(([, name]) => name as string);
  expect(names.length).toBeGreaterThan(50);
  const stubs = names
    .filter((name) => name !== "llama_version" && name !== without)
    .map((name) => `void ${name}(void) {}`);
  const source = join(folder, "stubs.c");
  const library = join(folder, `libllama.${version}.so`);
  writeFileSync(source, `const char* llama_version(void) { return "${version}"; }\n${stubs.join("\n")}\n`);
  execFileSync("cc", ["-shared", "-fPIC", "-o", library, source]);
  const script = `try { require("./build/Release/hone_engine.node").bind() } catch (error) { console.log(error.message) }`;
  const env = { ...process.env, LD_PRELOAD: library };
  return execFileSync(process.execPath, ["-e", script], { cwd: packageRoot, env, encoding: "utf8" }).trim();
}

describe("the addon", () => {
  it("says what to do when it is not built", () => {
    expect(() => loadAddon(join(folder, "hone_engine.node"))).toThrow(
      /the engine's addon is not built .*run `node scripts\/build-addon.mjs`/,
    );
  });

  it("says what to do when it cannot be loaded", () => {
    const broken = join(folder, "broken.node");
    writeFileSync(broken, "no library");
    expect(() => loadAddon(broken)).toThrow(/the engine's addon cannot be loaded: .*broken.node.*run `yarn install/);
  });

  it("refuses another version of llama.cpp, and says what to do", () => {
    expect(bindTo("9.9.9")).toBe(
      "hone's addon was built for llama.cpp 0.5.0, but node-llama-cpp has loaded 9.9.9; node-llama-cpp and hone's addon must come from one installation: run `yarn install --force`",
    );
  });

  it("refuses a llama.cpp that lacks a function it needs", () => {
    expect(bindTo("0.5.0", "llama_memory_seq_cp")).toMatch(
      /^llama.cpp of node-llama-cpp has no llama_memory_seq_cp; .*yarn install --force/,
    );
  });

  it("refuses to work where no llama.cpp is loaded", () => {
    const script = `try { require("./build/Release/hone_engine.node").bind() } catch (error) { console.log(error.message) }`;
    const output = execFileSync(process.execPath, ["-e", script], { cwd: packageRoot, encoding: "utf8" });
    expect(output).toContain("node-llama-cpp has not loaded llama.cpp into this process");
  });
});

/** What packaging checks of compiled files and notices. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const { checkElf, problemsOf } = await import(join(packageRoot, "scripts/package/elf.mjs"));

const folder = mkdtempSync(join(tmpdir(), "hone-packaging-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("a compiled file for Linux", () => {
  const fine = `
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND dlsym@GLIBC_2.2.5 (2)
  000000: Version: 1  File: libc.so.6  Cnt: 1
  0x0010:   Name: GLIBC_2.28  Flags: none  Version: 5
`;

  it.each([
    ["nothing, where it fits every system", "", []],
    ["a newer glibc", "Name: GLIBC_2.34 Flags: none", ["it needs glibc 2.34, newer than 2.28"]],
    [
      "a library that a system may lack",
      " 0x1 (NEEDED)   Shared library: [libstdc++.so.6]",
      ["it needs libstdc++.so.6, which a system may lack"],
    ],
    [
      "a call into Node by another C++ library",
      "    7: 0000 0 FUNC GLOBAL DEFAULT  UND _ZN2v85ValueENSt3__110shared_ptrE",
      ["it calls _ZN2v85ValueENSt3__110shared_ptrE of another library"],
    ],
  ])("has as problem: %s", (_, line, problems) => {
    expect(problemsOf(`${fine}${line}\n`)).toEqual(problems);
  });

  it("that names no glibc is none", () => {
    expect(problemsOf("")).toEqual([expect.stringContaining("it names no version of glibc")]);
  });

  const here = process.platform === "linux";
  it.skipIf(!here)(`is read as it lies on the disk${here ? "" : " (skipped: Node is no file of Linux)"}`, () => {
    const library = join(folder, "newer.so");
    writeFileSync(join(folder, "newer.c"), "int answer(void) { return 42; }\n");
    const made = spawnSync("cc", ["-shared", "-fPIC", "-nostdlib", "-o", library, join(folder, "newer.c")]);
    expect(made.status).toBe(0);
    expect(() => checkElf(library)).toThrow("newer.so: it names no version of glibc");
  });
});

describe("THIRD-PARTY.md", () => {
  it("names what is inside hone's packages, in the versions that are installed", () => {
    const script = join(packageRoot, "scripts/notices.mjs");
    const { status, stderr } = spawnSync(process.execPath, [script, "--check"], { encoding: "utf8" });
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });
});

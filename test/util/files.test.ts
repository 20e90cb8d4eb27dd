import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { LineFile, writeDurably } from "../../src/core/util/files.js";
import { packageRoot } from "../../src/core/util/paths.js";

const compiled = pathToFileURL(join(packageRoot, "dist/src/core/util/files.js")).href;

it("two processes that replace a file at once both succeed, and leave nothing beside it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
  const file = join(folder, "seal");
  const program = (text: string) => `
    import { writeDurably } from ${JSON.stringify(compiled)};
    for (let i = 0; i < 300; i++) writeDurably(${JSON.stringify(file)}, ${JSON.stringify(text)});`;
  const texts = ["one".repeat(100), "two".repeat(100)];
  const ends = texts.map(async (text) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program(text)], { stdio: "ignore" });
    return (await once(child, "close"))[0];
  });
  expect(await Promise.all(ends)).toEqual([0, 0]);
  expect(texts).toContain(readFileSync(file, "utf8"));
  expect(readdirSync(folder)).toEqual(["seal"]);
});

it("a file that cannot be replaced leaves nothing beside it", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
  mkdirSync(join(folder, "seal"));
  expect(() => writeDurably(join(folder, "seal"), "text")).toThrow();
  expect(readdirSync(folder)).toEqual(["seal"]);
});

/** What is in a folder whose disk has room for `blocks` blocks of 1,024 bytes in one file, after the program. */
function withLittleRoom(folder: string, blocks: number, program: string) {
  const script = `import { LineFile, writeDurably } from ${JSON.stringify(compiled)};\n${program}`;
  // A file at its size limit is refused as one on a full disk is.
  const limited = ["-c", `ulimit -f ${blocks}; exec "$0" --input-type=module -e "$1"`, process.execPath, script];
  const { status, stderr } = spawnSync("bash", limited, { cwd: folder, encoding: "utf8" });
  const files = Object.fromEntries(
    readdirSync(folder).map((name) => [name.replace(/\d+(?=\.new$)/, "PID"), readFileSync(join(folder, name), "utf8")]),
  );
  return { status, stderr, files };
}

describe("on a full disk", () => {
  it("what a text was to replace stays", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
    writeFileSync(join(folder, "report"), "old");
    const { status, stderr, files } = withLittleRoom(folder, 4, `writeDurably("report", "new".repeat(9000))`);
    expect([status, stderr]).toEqual([1, expect.stringMatching(/EFBIG/)]);
    expect(files).toEqual({ report: "old" });
  });

  it("what lines were to replace stays, and whole lines are kept beside it", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
    writeFileSync(join(folder, "lines"), "old");
    const line = "x".repeat(999);
    const program = `
      const file = new LineFile("lines", "the file of lines");
      try { for (let i = 0; i < 9; i++) file.add("x".repeat(999)); } catch (error) { console.error(error.message); }
      file.end();`;
    const { stderr, files } = withLittleRoom(folder, 4, program);
    expect(stderr).toMatch(
      /^the file of lines cannot be written: EFBIG.*; the lines before are in .*lines\.\d+\.new\n$/,
    );
    expect(files).toEqual({ lines: "old", "lines.PID.new": `${line}\n`.repeat(4) });
  });

  it("whole lines are kept where there was no file", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
    const program = `
      const file = new LineFile("lines", "lines");
      try { for (;;) file.add("x".repeat(999)); } finally { file.end(); }`;
    const { files } = withLittleRoom(folder, 4, program);
    expect(files).toEqual({ lines: `${"x".repeat(999)}\n`.repeat(4) });
  });
});

describe("a file of lines", () => {
  const made = (lines: readonly string[], wanted: boolean | undefined) => {
    const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
    const name = join(folder, "lines");
    writeFileSync(name, "old\n", { mode: 0o640 });
    const file = new LineFile(name, "lines");
    for (const line of lines) file.add(line);
    expect(readFileSync(name, "utf8")).toBe("old\n");
    file.end(wanted);
    expect(readdirSync(folder)).toEqual(["lines"]);
    expect(statSync(name).mode & 0o777).toBe(0o640);
    return readFileSync(name, "utf8");
  };

  it("takes the place of another at its end, with its permissions, and not where it is of no use", () => {
    expect(made(["one", "two"], undefined)).toBe("one\ntwo\n");
    expect(made([], true)).toBe("");
    expect(made(["one"], false)).toBe("old\n");
  });

  it("goes through a link to the file itself", () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
    writeFileSync(join(folder, "far"), "old");
    symlinkSync("far", join(folder, "near"));
    const file = new LineFile(join(folder, "near"), "lines");
    file.add("one");
    file.end();
    writeDurably(join(folder, "near"), `${readFileSync(join(folder, "far"), "utf8")}two`);
    expect(readFileSync(join(folder, "far"), "utf8")).toBe("one\ntwo");
    expect(readdirSync(folder).sort()).toEqual(["far", "near"]);
  });

  it("and a text are written to a pipe, which is not replaced", () => {
    const program = `
      import { LineFile, writeDurably } from ${JSON.stringify(compiled)};
      const file = new LineFile("/dev/stdout", "lines");
      file.add("one");
      file.end();
      writeDurably("/dev/stdout", "two");`;
    const piped = ["-c", `"$0" --input-type=module -e "$1" | cat`, process.execPath, program];
    const { stdout } = spawnSync("bash", piped, { encoding: "utf8" });
    expect(stdout).toBe("one\ntwo");
  });
});

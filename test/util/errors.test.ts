import { mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { expect, it, vi } from "vitest";
import { messageOf, refusalOf } from "../../src/core/util/errors.js";
import { cacheHome } from "../../src/core/util/paths.js";

const systemError = (code: string, syscall: string) =>
  Object.assign(new Error(`${code}: no luck, ${syscall} '/x'`), { code, syscall });

it("what the machine refuses is one line, what the program gets wrong is none", () => {
  expect(refusalOf(systemError("ENOSPC", "write"))).toBe(
    "the disk is full; free some space (ENOSPC: no luck, write '/x')",
  );
  expect(refusalOf(systemError("EACCES", "open"))).toMatch(/^there is no permission/);
  const cache = Object.assign(new Error(`EACCES: mkdir '${cacheHome()}/hone'`), { code: "EACCES" });
  expect(refusalOf(cache)).toMatch(/\/hone'\); XDG_CACHE_HOME names another folder$/);
  // The home of a container's user without a name.
  vi.stubEnv("HOME", "/");
  vi.stubEnv("XDG_CACHE_HOME", "");
  const rootless = Object.assign(new Error("EACCES: mkdir '/.cache/hone'"), { code: "EACCES" });
  expect(refusalOf(rootless)).toMatch(/'\); XDG_CACHE_HOME names another folder$/);
  vi.unstubAllEnvs();
  expect(refusalOf(systemError("ENOENT", "open"))).toBeUndefined();
  expect(refusalOf(new TypeError("x is undefined"))).toBeUndefined();
  expect(refusalOf("text")).toBeUndefined();
});

it("a folder that cannot be made is the machine's refusal, a file that is not there is not", () => {
  const thrownBy = (work: () => unknown) => {
    try {
      return work();
    } catch (error) {
      return error;
    }
  };
  expect(refusalOf(systemError("ENOENT", "mkdir"))).toMatch(/^the disk is read-only/);
  const below = thrownBy(() => mkdirSync("/dev/null/folder", { recursive: true }));
  expect(refusalOf(below)).toMatch(/^a file is where a folder should be \(ENOTDIR/);
  // TMPDIR may outlive its folder, as of a cluster's job.
  expect(refusalOf(thrownBy(() => mkdtempSync("/nowhere/hone-doctor-")))).toMatch(
    /^the folder for temporary files is missing; make it, or set TMPDIR to another \(ENOENT: .* '\/nowhere\/hone-doctor-/,
  );
  expect(refusalOf(thrownBy(() => readFileSync("/nowhere/file")))).toBeUndefined();
});

it.each([
  [null, "null was thrown, which is no Error"],
  [2, "2 was thrown, which is no Error"],
  [undefined, "undefined was thrown, which is no Error"],
  ["", "an empty text was thrown, which is no Error"],
  ["bad mood", "bad mood"],
  [{ code: 7 }, '{"code":7} was thrown, which is no Error'],
  [Object.assign(Object.create(null), { big: 1n }), "a value of type object was thrown, which is no Error"],
  [Symbol("s"), "Symbol(s) was thrown, which is no Error"],
  [new Error("no luck"), "no luck"],
  [new TypeError(), "TypeError without a message"],
  [new AggregateError([new Error("first"), 2]), "first; 2 was thrown, which is no Error"],
  [runInNewContext("new RangeError('of elsewhere')"), "of elsewhere"],
])("whatever is thrown (%#) has a message", (thrown, message) => {
  expect(messageOf(thrown)).toBe(message);
});

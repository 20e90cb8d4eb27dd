import { mkdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { refusalOf } from "../../src/util/errors.js";

const systemError = (code: string, syscall: string) =>
  Object.assign(new Error(`${code}: no luck, ${syscall} '/x'`), { code, syscall });

it("what the machine refuses is one line, what the program gets wrong is none", () => {
  expect(refusalOf(systemError("ENOSPC", "write"))).toBe(
    "the disk is full; free some space (ENOSPC: no luck, write '/x')",
  );
  expect(refusalOf(systemError("EACCES", "open"))).toMatch(/^there is no permission/);
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
  expect(refusalOf(thrownBy(() => mkdirSync("/dev/null/folder", { recursive: true })))).toBeUndefined();
  expect(refusalOf(thrownBy(() => readFileSync("/nowhere/file")))).toBeUndefined();
});

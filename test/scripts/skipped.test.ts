/** What `yarn test` says of tests that pytest skipped and of those that failed, on a report that pytest itself wrote. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-skipped-"));
const { failedTests, skippedTests } = await import(join(packageRoot, "scripts/skipped.mjs"));

describe("tests that pytest skipped", () => {
  let report: string;
  beforeAll(async () => {
    const python = await ensureLearnerPython();
    writeFileSync(
      join(folder, "test_some.py"),
      `import pytest
@pytest.mark.skipif(True, reason="of glibc alone")
def test_of_another_machine(): pass
@pytest.mark.parametrize("value", [1])
def test_of_a_package(value): pytest.importorskip("no_such_package")
def test_that_runs(): pass
def test_that_fails(): assert [1, "<"] == [2, "<"]
@pytest.fixture
def broken(): raise OSError("no such <place>")
def test_that_cannot_begin(broken): pass
`,
    );
    writeFileSync(join(folder, "test_file.py"), 'import pytest\npytest.importorskip("no_such_package")\n');
    spawnSync(python, ["-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", folder, "--junit-xml=report.xml"], {
      cwd: folder,
    });
    report = readFileSync(join(folder, "report.xml"), "utf8");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("are named with their reason", () => {
    const lines = skippedTests(report, false).map(({ line }: { line: string }) => line);
    expect(lines.sort()).toEqual([
      "pytest skipped: test_file (collection skipped)",
      expect.stringMatching(/^pytest skipped: test_of_a_package\[1\] \(could not import 'no_such_package'/),
      "pytest skipped: test_of_another_machine (of glibc alone)",
    ]);
  });

  it("fail where it is asked for, but for those that are about another kind of machine", () => {
    const failed = skippedTests(report, true).filter((test: { failed: boolean }) => test.failed);
    expect(failed.map(({ line }: { line: string }) => line.split(" (")[0]).sort()).toEqual([
      "pytest FAILED, being skipped: test_file",
      "pytest FAILED, being skipped: test_of_a_package[1]",
    ]);
    expect(skippedTests(report, false).some((test: { failed: boolean }) => test.failed)).toBe(false);
  });

  it("are told apart from those that failed or could not begin, which are named with their error", () => {
    expect(failedTests(report)).toEqual([
      expect.stringMatching(/^test_some test_that_fails: AssertionError: assert \[1, '<'\] == \[2, '<'\]/),
      'test_some test_that_cannot_begin: failed on setup with "OSError: no such <place>"',
    ]);
  });
});

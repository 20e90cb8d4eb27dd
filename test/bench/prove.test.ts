/** `yarn prove`: its faults still apply to the source, and docs/trust.md says what the results say. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { compiled, patched } from "../../bench/prove/checkout.js";
import { readDocument, withTables } from "../../bench/prove/document.js";
import { faults } from "../../bench/prove/faults.js";
import { alarmIn, guardOf } from "../../bench/prove/guards.js";
import { PROVE_RESULTS } from "../../bench/prove/results.js";
import { again, outsideShare, outsideTable, type ProveResults } from "../../bench/prove/table.js";
import { packageRoot } from "../../src/core/util/paths.js";

const read = (file: string) => readFileSync(join(packageRoot, file), "utf8");

describe("the faults", () => {
  it.each(faults)("$family: $name applies to the source of today", async ({ patch, also = [] }) => {
    for (const one of [patch, ...also]) {
      const before = read(one.file);
      const after = patched(before, one);
      expect(after).not.toBe(before);
      if (one.file.endsWith(".ts")) expect(await compiled(after, one.file)).not.toBe(await compiled(before, one.file));
    }
  });

  it("are refused where the source has changed since", () => {
    const [{ patch }] = faults as [(typeof faults)[0]];
    expect(() => patched("something else", patch)).toThrow(`${patch.file} has 0 times, not once`);
    expect(() => patched(patch.find + patch.find, patch)).toThrow("has 2 times, not once");
  });

  it("have names of their own", () => {
    expect(new Set(faults.map(({ family, name }) => `${family} ${name}`)).size).toBe(faults.length);
  });
});

describe("what counts as seen", () => {
  it("is the error of a run that ended with one, or a guard's line in a run that went on", () => {
    expect(alarmIn(0, "step 1/3\nafter step 3: success 50 %\n")).toBeUndefined();
    expect(alarmIn(1, "step 1/3\nhone: there is no such model\n")).toBe("hone: there is no such model");
    const line = "engine and learner differ more than in the run's first steps (0.0010 nats): ...";
    expect(alarmIn(0, `step 1/3\n${line}\n`)).toBe(line);
    expect(guardOf(line)).toBe("distance of engine and learner (told)");
    expect(guardOf("hone: there is no such model")).toBe("an error");
  });
});

it("docs/trust.md has the table of the recorded results, and names the faults without a row", () => {
  const results = JSON.parse(readFileSync(PROVE_RESULTS, "utf8")) as ProveResults;
  expect(readDocument()).toBe(withTables(readDocument(), results));
  const known = new Set(faults.map(({ family, name }) => `${family} ${name}`));
  for (const { family, name } of results.faults) expect(known).toContain(`${family} ${name}`);
});

it("a fault from outside that is tried again keeps its first outcome, with the later one beside it", () => {
  const first = { name: "a fault", family: "storage", seen: null, step: null, guard: null, words: null } as const;
  const seen = { ...first, seen: "run", step: 1, guard: "a guard", words: "seen" } as const;
  const both = again(first, seen);
  expect(again(first, first)).toEqual(first);
  expect(again(both, first)).toEqual(first);
  expect(both).toMatchObject({ seen: null, since: { seen: "run", step: 1, guard: "a guard" } });
  expect(outsideTable([first, both])).toContain("| **not seen** | **not seen** |  |");
  expect(outsideTable([first, both])).toContain("| **not seen** | in the run, step 1 | a guard |");
  const share = outsideShare([first], [both, seen]).replaceAll("\n", " ");
  expect(share).toContain("1 tried, of which were seen: 0 in the run, 1 by nobody. Of 2 of earlier lists");
  expect(share).toContain("first tried: 1 in the run, 1 by nobody; guards were written for them since: 2 in the run.");
});

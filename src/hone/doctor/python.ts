/** Checks of the learner's Python: interpreter, packages, and the devices its PyTorch can compute on. */

import { messageOf } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { BUILDS, type Build, interpreterIn, madeEnvironments } from "../../engine/device/environment.js";
import { pinned } from "../../machine/python/declared.js";
import { environmentMaker } from "../../machine/python/python.js";
import { type Check, none, note, ok, wrong } from "./check.js";
import { factsOfPython, type PythonFacts } from "./facts.js";
import type { TrialRequest } from "./try.js";

type Learner = TrialRequest["learner"];

/** The interpreter that training would use, or else one of another build; undefined while there is none. */
function learnerPython(given: string | undefined, build: Build | undefined): string | undefined {
  if (given !== undefined) return given;
  const [own] = madeEnvironments(build === undefined ? BUILDS : [build, ...BUILDS]);
  return own && interpreterIn(own);
}

/**
 * @param given value of `--python`
 * @param card the NVIDIA GPU that the learner has to compute on, in words; undefined where it computes on the CPU
 * @param build of PyTorch that goes with that
 */
export async function checkPython(
  given: string | undefined,
  learner: Learner,
  card: string | undefined,
  build?: Build,
) {
  const python = learnerPython(given, build);
  if (python === undefined) {
    try {
      await environmentMaker();
    } catch (error) {
      return { checks: [wrong("python", messageOf(error), `then run \`${hone("doctor")} --install\``)] };
    }
    const found = `not made yet; \`${hone("train")}\` makes it when it is first needed, \`${hone("doctor")} --install\` now`;
    return { checks: [none("python", found)] };
  }
  const install = given === undefined ? `run \`${hone("doctor")} --install\`` : "give another --python";
  const again = given === undefined ? `remove it and ${install}` : install;
  let facts: PythonFacts;
  try {
    facts = await factsOfPython(python);
  } catch (error) {
    const why = `${python} does not answer: ${messageOf(error)}`;
    return { checks: [wrong("python", why, again)] };
  }
  const checks = [
    pythonCheck(facts, given),
    torchCheck(facts, { again, install }, card),
    compilerCheck(facts, learner),
    unslothCheck(facts, learner),
  ];
  // Without PyTorch no interpreter can run the learner.
  return { checks, facts: facts.torch ? facts : undefined };
}

function pythonCheck({ python, executable, packages }: PythonFacts, given: string | undefined): Check {
  const found = `Python ${python} (${executable})`;
  const install = (pins: readonly (readonly [string, string])[]) =>
    `run \`${executable} -m pip install ${pins.map((pin) => pin.join("==")).join(" ")}\``;
  const missing = [...pinned()].filter(([name]) => packages[name] === null);
  if (missing.length > 0) {
    const lacks = `${found} lacks ${missing.map(([name]) => name).join(", ")}`;
    return wrong("python", lacks, install(missing), { python, packages });
  }
  // The local part of a version names the build: 2.13.0+cpu is 2.13.0.
  const other = [...pinned()].filter(([name, pin]) => packages[name]?.split("+")[0] !== pin);
  if (other.length === 0) return ok("python", found, { python, packages });
  const list = other.map(([name, pin]) => `${name} ${packages[name]} (tested: ${pin})`).join(", ");
  const facts = { python, packages };
  return given === undefined
    ? wrong(
        "python",
        `${found} has ${list}`,
        `the next \`${hone("train")}\` makes it anew; \`${hone("doctor")} --install\` does now`,
        facts,
      )
    : note("python", `${found} has ${list}`, `${install(other)} for the versions that were tested`, facts);
}

function torchCheck(
  { torch, broken }: PythonFacts,
  { again, install }: { again: string; install: string },
  card: string | undefined,
): Check {
  if (!torch) return wrong("torch", `PyTorch cannot be imported: ${broken}`, again);
  const build = torch.cuda === null ? "a build for the CPU" : `a build for CUDA ${torch.cuda}`;
  const sees = torch.gpu === null ? "sees no NVIDIA GPU" : `sees ${torch.gpu}`;
  const found = `PyTorch ${torch.version}, ${build}, ${sees}`;
  if (card === undefined || torch.seesGpu) return ok("torch", found, torch);
  const mend = torch.cuda === null ? `a build for CUDA is needed: ${install}` : "mend NVIDIA's driver";
  return wrong("torch", `${found}, but there is ${card}`, `${mend}, or give --gpu off`, torch);
}

/**
 * What Triton needs to compile the learner's layers for a card; nothing is compiled for a CPU. PEFT's are also computed
 * uncompiled, Unsloth's kernels are Triton's.
 */
function compilerCheck({ torch, compiler, headers }: PythonFacts, learner: Learner): Check {
  const facts = { compiler, headers };
  if (!torch?.seesGpu) return none("compiler", "nothing is compiled without CUDA", facts);
  if (compiler !== null && headers) return ok("compiler", `${compiler}, and Python's headers`, facts);
  const lacks = [...(compiler === null ? ["C compiler"] : []), ...(headers ? [] : ["Python.h"])].join(" and no ");
  const install = "install both (Debian, Ubuntu: `apt install gcc python3-dev`)";
  if (learner === "unsloth") {
    const found = `no ${lacks}: Unsloth's kernels cannot be compiled, and no update can be made with it`;
    return wrong("compiler", found, `${install}, or give --learner peft`, facts);
  }
  const found = `no ${lacks}: the learner's layers cannot be compiled, and it is slower`;
  return note("compiler", found, install, facts);
}

/** The trial shows whether it works, when `learner` uses it. */
function unslothCheck({ packages }: PythonFacts, learner: Learner): Check {
  const version = packages.unsloth ?? null;
  const install = `\`${hone("doctor")} --install --learner unsloth\``;
  if (version === null) {
    return learner === "unsloth"
      ? wrong("unsloth", "not installed", `${install} adds it to hone's own environment`, { version })
      : none("unsloth", `not installed; an extra that ${install} adds`, { version });
  }
  const tested = pinned("unsloth-cpu").get("unsloth");
  const use = learner === "unsloth" ? "" : "; `--learner unsloth` takes it, auto PEFT, whose rows share prompts";
  if (version === tested) return ok("unsloth", `Unsloth ${version}${use}`, { version });
  const found = `Unsloth ${version} (tested: ${tested})${use}`;
  return note("unsloth", found, `${install} takes the version that was tested`, { version });
}

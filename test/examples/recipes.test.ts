/** examples/recipes: files for schedulers, whose commands hone takes and which their programs take. */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import { beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { packageRoot } from "../../src/core/util/paths.js";
import { checkLine } from "../docs/parse.js";
import { ensureLearnerPython } from "../support/python.js";

const file = (name: string) => join(packageRoot, "examples/recipes", name);
const textOf = (name: string) => readFileSync(file(name), "utf8");
const names = ["slurm.sbatch", "kubernetes.yaml", "skypilot.yaml"];

let python: string;
beforeAll(async () => {
  python = await ensureLearnerPython();
});

/** The documents of a YAML file, as PyYAML reads them. */
function yaml(name: string): unknown[] {
  const program = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
  const { status, stdout, stderr } = spawnSync(python, ["-c", program, file(name)], { encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as unknown[];
}

/** Lines that continue are one; what the shell puts in is a word. */
const commands = (text: string) =>
  text
    .replaceAll(/\\\n\s*/g, "")
    .replaceAll(/"\$\(IFS=.*?\)"/g, "http://node:8000")
    .replaceAll(/\$CARDS/g, "4")
    .replaceAll(/\$CONTEXT/g, "8192")
    .replaceAll(/\$\w+/g, "word")
    .split("\n")
    .flatMap((line) => /(?:npx --yes \S+|yarn) train .*/.exec(line.trim()) ?? []);

describe.each(names)("%s", (name) => {
  it("trains by a command that hone takes", async () => {
    const lines = commands(textOf(name));
    expect(lines).toHaveLength(1);
    await checkLine(lines[0] as string);
    await expect(checkLine(`${lines[0]} --learner-lunch x`)).rejects.toThrow("no option learnerLunch");
  });

  it("starts servers as docs/vllm.md says", () => {
    const said = /vllm serve MODEL[\s\S]*?&/.exec(readFileSync(join(packageRoot, "docs/vllm.md"), "utf8"))?.[0] ?? "";
    const flags = [...said.matchAll(/--[a-z-]+/g)].map(([flag]) => flag);
    expect(flags).toContain("--logprobs-mode");
    const bound = name === "kubernetes.yaml" ? flags.filter((flag) => flag !== "--host") : flags;
    for (const flag of bound) expect(textOf(name)).toContain(flag);
    expect(textOf(name)).toContain("VLLM_ALLOW_RUNTIME_LORA_UPDATING");
    // One more than --context.
    expect(textOf(name)).toMatch(/--context (?:\$CONTEXT[\s\S]*|8192)/);
    expect(textOf(name)).toMatch(/--max-model-len[ =](?:\$\(\(CONTEXT \+ 1\)\)|8193)/);
  });
});

/** What bash says of a script; "" where it can be read. */
const bashOf = (script: string) => spawnSync("bash", ["-n"], { input: script, encoding: "utf8" }).stderr;

describe("scripts", () => {
  it("can be read by bash", () => {
    const task = z
      .object({ setup: z.string(), run: z.string(), num_nodes: z.number() })
      .parse(yaml("skypilot.yaml")[0]);
    for (const script of [textOf("slurm.sbatch"), task.setup, task.run]) expect(bashOf(script)).toBe("");
    expect(bashOf("for x in; do")).not.toBe("");
  });
});

describe("kubernetes.yaml", () => {
  const schema = JSON.parse(readFileSync(join(packageRoot, "test/examples/kubernetes-1.34.json"), "utf8"));
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(schema, "kubernetes");
  const kinds: Readonly<Record<string, string>> = {
    Job: "batch.v1.Job",
    NetworkPolicy: "networking.v1.NetworkPolicy",
    PersistentVolumeClaim: "core.v1.PersistentVolumeClaim",
    Service: "core.v1.Service",
    StatefulSet: "apps.v1.StatefulSet",
  };
  const errorsOf = (document: unknown): string[] => {
    const { kind } = document as { kind: string };
    const validate = ajv.compile({ $ref: `kubernetes#/$defs/io.k8s.api.${kinds[kind]}` });
    return validate(document) ? [] : (validate.errors ?? []).map((one) => `${one.instancePath} ${one.message}`);
  };
  let documents: unknown[];
  beforeAll(() => {
    documents = yaml("kubernetes.yaml");
  });

  it("has objects that Kubernetes 1.34's own schema takes", () => {
    expect(documents.map((one) => (one as { kind: string }).kind).sort()).toEqual(Object.keys(kinds).sort());
    expect(documents.flatMap(errorsOf)).toEqual([]);
  });

  it("would be refused with an unknown field, or a value of another type", () => {
    const changed = (from: string, to: string) =>
      documents.map((one) => JSON.parse(JSON.stringify(one).replace(from, to)) as unknown).flatMap(errorsOf);
    expect(changed('"restartPolicy"', '"restart"')).not.toEqual([]);
    expect(changed('"backoffLimit":10', '"backoffLimit":"ten"')).not.toEqual([]);
  });

  it("claims the volume, and reaches the servers by the names, that it defines", () => {
    const text = JSON.stringify(documents);
    const named = (kind: string) =>
      documents
        .map(
          (one) =>
            one as { kind: string; metadata: { name: string }; spec: { replicas?: number; serviceName?: string } },
        )
        .find((one) => one.kind === kind);
    expect(text.match(/"claimName":"(.*?)"/g)).toEqual(
      Array(2).fill(`"claimName":"${named("PersistentVolumeClaim")?.metadata.name}"`),
    );
    const players = named("StatefulSet");
    expect(players?.spec.serviceName).toBe(named("Service")?.metadata.name);
    const last = (players?.spec.replicas ?? 0) - 1;
    expect(text).toContain(`http://${players?.metadata.name}-{0..${last}}.${players?.spec.serviceName}:8000`);
  });
});

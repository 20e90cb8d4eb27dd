/** The real vLLM on a CPU, as docs/vllm.md starts it, for the tiny model. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { packageRoot } from "../../../src/core/util/paths.js";
import { spawnTied } from "../../../src/core/util/tied.js";
import { modelFolder } from "../../../src/machine/models/folder.js";
import { ensureVllm } from "../../../src/machine/python/vllm.js";
import { CONTEXT, model } from "./support.js";

export const cli = join(packageRoot, "dist/src/cli.js");

export interface Vllm {
  readonly python: string;
  readonly environment: Readonly<Record<string, string>>;
  /** The tiny model in Hugging Face's form. */
  readonly folder: string;
}

export async function prepareVllm(home: string): Promise<Vllm> {
  const silent = () => undefined;
  const given = process.env.VLLM_TEST_PYTHON;
  const { python, environment } = await ensureVllm({ given, cuda: false, onProgress: silent });
  return {
    python,
    environment: { ...environment, VLLM_CPU_KVCACHE_SPACE: "1", OMP_NUM_THREADS: "1" },
    folder: await modelFolder(model, { home, python: undefined }, { log: silent }),
  };
}

export interface Server {
  readonly url: string;
  /** The end of its output, and whether it runs. */
  readonly state?: () => string;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
}

/** Values of flags; null leaves one out, "" gives a flag without a value. */
export type Flags = Readonly<Record<string, string | null>>;

/** `vllm`, which asks for its version by a name that the package for a CPU does not have. */
const SERVE = `
import importlib.metadata as metadata
version = metadata.version
metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
from vllm.entrypoints.cli.main import main
main()
`;

const RIGHT: Flags = {
  "--served-model-name": "base",
  "--enable-lora": "",
  "--enforce-eager": "",
  "--max-model-len": String(CONTEXT + 1),
  "--max-lora-rank": "16",
  "--max-loras": "2",
  "--logprobs-mode": "processed_logprobs",
  "--generation-config": "vllm",
  "--dtype": "float32",
};

export interface Otherwise {
  readonly flags?: Flags;
  readonly environment?: Readonly<Record<string, string>>;
  /** The model's folder. */
  readonly folder?: string;
  readonly cwd?: string;
}

/** @param otherwise what differs from a server that is set up as it should be */
export async function startServer(vllm: Vllm, port: number, otherwise: Otherwise = {}): Promise<Server> {
  const flags = Object.entries({ ...RIGHT, ...otherwise.flags }).flatMap(([flag, value]) =>
    value === null ? [] : value === "" ? [flag] : [flag, value],
  );
  const { process: child, kill } = spawnTied(
    vllm.python,
    [
      ...["-c", SERVE, "serve", otherwise.folder ?? vllm.folder],
      ...["--host", "127.0.0.1", "--port", String(port), ...flags],
    ],
    {
      stdio: ["ignore", "pipe", "pipe"],
      ownGroup: true,
      env: { ...process.env, ...vllm.environment, ...otherwise.environment },
      ...(otherwise.cwd === undefined ? {} : { cwd: otherwise.cwd }),
    },
  );
  const url = `http://127.0.0.1:${port}`;
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-4000);
    });
  }
  const state = () => `${url}, ended with ${child.exitCode ?? child.signalCode ?? "nothing: it runs"}: ${said}`;
  while (child.exitCode === null && child.signalCode === null) {
    const ready = await fetch(`${url}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
    if (ready) break;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  if (child.exitCode !== null) throw new Error(state());
  return {
    url,
    state,
    kill: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      kill();
      await ended;
    },
  };
}

/** A hone command, and what it has said so far and will have said. */
export function startHone(args: readonly string[]) {
  const child: ChildProcess = spawn(process.execPath, [cli, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  }
  const until = async (words: RegExp) => {
    while (!words.test(said)) {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode} before ${words}: ${said}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const ended = async () => {
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    return child.exitCode;
  };
  return { child, said: () => said, until, ended };
}

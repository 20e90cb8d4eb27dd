/** How hone is called where it was started: what messages and help tell people to type. */
import { packageRoot } from "./paths.js";

/** Commands that a checkout has as scripts of their own. */
const scripts: Readonly<Record<string, string>> = {
  "build-db": "build-db",
  demo: "start",
  doctor: "doctor",
  eval: "eval",
  report: "report",
  rollout: "rollout",
  train: "train",
};

export interface Started {
  /** Folder of the package. */
  readonly root: string;
  /** The program that Node was given, as it was named. */
  readonly script: string | undefined;
  /** Of the package manager that started it, where one did. */
  readonly agent: string | undefined;
}

const here: Started = { root: packageRoot, script: process.argv[1], agent: process.env.npm_config_user_agent };

/** Whether hone is installed as a dependency of a project. */
export function isInstalled({ root, script = "" }: Pick<Started, "root" | "script"> = here): boolean {
  const path = (text: string) => text.replaceAll("\\", "/");
  return path(root).includes("/node_modules/") || /\/node_modules\/(\.bin\/hone|@hone-rl\/hone\/)/.test(path(script));
}

/**
 * @public The list of commands loads this file alone, not all of the room.
 *
 * The program alone. npx is told to fetch nothing, the name on the registry being another's; after -- it leaves --help to hone.
 */
export function program(started: Started = here): string {
  if (!isInstalled(started)) return "yarn hone";
  const manager = /^(yarn|pnpm)\//.exec(started.agent ?? "")?.[1];
  return manager ? `${manager} hone` : "npx --no -- hone";
}

/**
 * @public As `program`.
 *
 * A command as it is typed: `hone("train")` is "yarn train" in a checkout.
 */
export function hone(command: string, started: Started = here): string {
  const script = isInstalled(started) ? undefined : scripts[command];
  return script ? `yarn ${script}` : `${program(started)} ${command}`;
}

/** What runs the install scripts of hone, which some package managers run only where they were allowed to. */
const rebuilding: Readonly<Record<string, string>> = {
  pnpm: "`pnpm approve-builds` and `pnpm rebuild @hone-rl/hone`",
  bun: "`bun pm trust @hone-rl/hone`",
  yarn: "`yarn install --force`",
};

/** What installs hone's own parts again. */
export function reinstall(started: Started = here): string {
  if (!isInstalled(started)) return "`yarn install --force` in hone";
  const manager = /^(\w+)\//.exec(started.agent ?? "")?.[1] ?? "npm";
  return rebuilding[manager] ?? "`npm rebuild @hone-rl/hone`";
}

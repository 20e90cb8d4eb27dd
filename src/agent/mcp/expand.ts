/**
 * Expands variables in an `mcpServers` file as the programs with this format do: `${NAME}` and `${NAME:-default}`
 * (Claude Code), `${env:NAME}`, `${userHome}`, `${workspaceFolder}`, `${pathSeparator}` (Cursor, VS Code) and
 * `${input:ID}` (VS Code), which takes its default, since hone does not prompt.
 */
import { homedir } from "node:os";
import { basename, sep } from "node:path";

/** Left in the text: each rollout has a folder of its own. */
export const ROLLOUT_FOLDER = `$\{rolloutFolder}`;

export interface Surroundings {
  readonly workspace: string;
  /** Defaults of the file's inputs by id. */
  readonly inputs: ReadonlyMap<string, string | undefined>;
}

function variable(name: string, { workspace, inputs }: Surroundings): string {
  const fixed: Record<string, string> = {
    userHome: homedir(),
    workspaceFolder: workspace,
    workspaceFolderBasename: basename(workspace),
    pathSeparator: sep,
    "/": sep,
  };
  if (Object.hasOwn(fixed, name)) return fixed[name] as string;
  const [, id] = /^input:(.*)$/s.exec(name) ?? [];
  const given = id === undefined ? undefined : inputs.get(id);
  if (given !== undefined) return given;
  if (id !== undefined) {
    throw new Error(
      `\${${name}} would have to be asked for; put it into the environment and write \${env:${id.toUpperCase().replace(/\W/g, "_")}}`,
    );
  }
  const [, named, fallback] = /^(?:env:)?([A-Za-z_]\w*)(?::-(.*))?$/s.exec(name) ?? [];
  if (named === undefined) throw new Error(`\${${name}} is no variable that hone knows; docs/mcp.md lists them`);
  const value = process.env[named] ?? fallback;
  if (value === undefined) throw new Error(`the environment has no ${named}; set it, or write \${${named}:-default}`);
  // As in a shell, an empty variable takes the default too.
  return value === "" && fallback !== undefined ? fallback : value;
}

/** @throws Error for a variable that has no value */
export const expand = (text: string, surroundings: Surroundings): string =>
  text.replace(/\$\{([^}]*)\}/g, (whole, name: string) =>
    whole === ROLLOUT_FOLDER ? whole : variable(name, surroundings),
  );

/**
 * Options of the library: those of the command line, named as in docs/options.md but in camelCase, with the same
 * checks.
 */
import type { Config, OptionName } from "../core/config/config.js";

/** Any of the options `K`; undefined means the default. */
export type Given<K extends OptionName> = { readonly [N in K]?: Config[N] | undefined };

/** Receives log lines; silent by default. */
export interface Listener {
  readonly log?: (line: string) => void;
}

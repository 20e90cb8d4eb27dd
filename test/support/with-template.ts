import type { Engine } from "../../src/core/engine/engine.js";

/** An engine under another chat template. */
export function withTemplate<T extends Engine>(engine: T, chatTemplate: string): T {
  const info = { ...engine.info, chatTemplate };
  return new Proxy(engine, {
    get(target, name) {
      if (name === "info") return info;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

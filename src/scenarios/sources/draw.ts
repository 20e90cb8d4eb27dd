/** An order drawn by the seed that a larger source does not change: of any two names the same comes first. */
import { deriveSeed } from "../../core/util/random.js";

export function drawn<T>(items: Iterable<T>, most: number, seed: number, nameOf: (item: T) => string): T[] {
  return [...items]
    .map((item) => ({ item, name: nameOf(item) }))
    .map((one) => ({ ...one, draw: deriveSeed("piece", seed, one.name) }))
    .sort((a, b) => a.draw - b.draw || (a.name < b.name ? -1 : 1))
    .slice(0, most)
    .map(({ item }) => item);
}

/** `a.b`, `a[b]` and `a[b:c]`, as Jinja's environments look them up. */
import { methodOf } from "./methods.js";
import {
  Callable,
  characters,
  fail,
  isDict,
  isText,
  keyOf,
  Lazy,
  Loop,
  Namespace,
  Tuple,
  text,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

/** What every attribute of an undefined value is: an error. */
const ofUndefined = (value: Undefined, name: string) => fail(`${value.name} is undefined, so it has no ${name}`);

/** None is a value. */
export const orUndefined = (value: Value | undefined, name: string): Value =>
  value === undefined ? new Undefined(name) : value;

/** `a.b`: Python's attribute, else the item. */
export function attribute(value: Value, name: string): Value {
  if (value instanceof Undefined) return ofUndefined(value, name);
  const own = ownAttribute(value, name);
  return own !== undefined ? own : orUndefined(item(value, name), name);
}

/** `a[b]`: the item, else Python's attribute. */
export function subscript(value: Value, key: Value): Value {
  if (value instanceof Undefined) return ofUndefined(value, text(key));
  const found = item(value, key);
  if (found === undefined && isText(key)) return orUndefined(ownAttribute(value, text(key)), text(key));
  return orUndefined(found, `an item of a ${typeName(value)}`);
}

/** Attributes of `loop`. */
const ofLoop: Readonly<Record<string, (loop: Loop) => Value>> = {
  index: ({ index }) => BigInt(index + 1),
  index0: ({ index }) => BigInt(index),
  revindex: ({ items, index }) => BigInt(items.length - index),
  revindex0: ({ items, index }) => BigInt(items.length - index - 1),
  first: ({ index }) => index === 0,
  last: ({ items, index }) => index === items.length - 1,
  length: ({ items }) => BigInt(items.length),
  // Of loops that are not recursive.
  depth: () => 1n,
  depth0: () => 0n,
  previtem: ({ items, index }) => orUndefined(items[index - 1], "the item before the first"),
  nextitem: ({ items, index }) => orUndefined(items[index + 1], "the item behind the last"),
  cycle: ({ index }) =>
    new Callable("loop.cycle", (args) => orUndefined(args[index % args.length], "the item of an empty cycle")),
  changed: () => unsupported("loop.changed"),
};

function ownAttribute(value: Value, name: string): Value | undefined {
  if (/^__/.test(name)) return fail(`a template must not look at ${name}`);
  if (value instanceof Namespace) return value.values.get(name);
  if (value instanceof Loop) return Object.hasOwn(ofLoop, name) ? ofLoop[name]?.(value) : undefined;
  return methodOf(value, name);
}

/** The place that a value stands for as an index or a bound; undefined where it is no int. */
const placeOf = (value: Value) => (typeof value === "bigint" || typeof value === "boolean" ? Number(value) : undefined);

function item(value: Value, key: Value): Value | undefined {
  if (isDict(value)) {
    const known = keyOf(key);
    return known === undefined ? undefined : value.get(known);
  }
  if (value instanceof Lazy && value.kind === "range") return unsupported("an item of a range");
  const all = isText(value) ? characters(text(value)) : value;
  const index = placeOf(key);
  return Array.isArray(all) && index !== undefined ? all.at(index) : undefined;
}

/** `a[start:stop:step]` of a text, a list or a tuple. */
export function slice(value: Value, bounds: readonly (Value | undefined)[]): Value {
  const [start, stop, step = 1] = bounds.map((bound) => {
    if (bound === undefined || bound === null) return undefined;
    return placeOf(bound) ?? fail("the bounds of a slice must be whole numbers");
  });
  if (step === 0) return fail("a slice cannot have the step 0");
  const cut = <T>(all: readonly T[]): T[] => {
    const [least, most] = step < 0 ? [-1, all.length - 1] : [0, all.length];
    const [first, end] = step < 0 ? [most, least] : [least, most];
    const placed = (at: number) => Math.min(Math.max(at < 0 ? at + all.length : at, least), most);
    const taken: T[] = [];
    const to = stop === undefined ? end : placed(stop);
    for (let at = start === undefined ? first : placed(start); step < 0 ? at > to : at < to; at += step) {
      taken.push(all[at] as T);
    }
    return taken;
  };
  if (typeof value === "string") return cut(characters(value)).join("");
  if (value instanceof Tuple) return Tuple.from(cut(value));
  if (Array.isArray(value)) return cut(value);
  if (value instanceof Lazy && value.kind === "range") return unsupported("a slice of a range");
  return fail(`a value of type ${typeName(value)} has no slices`);
}

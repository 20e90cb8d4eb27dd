/** `a.b`, `a[b]` and `a[b:c]`, as Jinja's environments look them up. */
import { methodOf } from "./methods.js";
import {
  characters,
  fail,
  isDict,
  isKey,
  isText,
  keyOf,
  Loop,
  Namespace,
  Range,
  Tuple,
  text,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

/** What every attribute of an undefined value is: an error. */
const ofUndefined = (value: Undefined, name: string) => fail(`${value.name} is undefined, so it has no ${name}`);

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
  if (found === undefined && typeof key === "string") return orUndefined(ownAttribute(value, key), key);
  return orUndefined(found, isText(key) ? text(key) : `an item of a ${typeName(value)}`);
}

/** None is a value. */
export const orUndefined = (value: Value | undefined, name: string): Value =>
  value === undefined ? new Undefined(name) : value;

function ownAttribute(value: Value, name: string): Value | undefined {
  if (/^__/.test(name)) return fail(`a template must not look at ${name}`);
  if (value instanceof Namespace) return value.values.get(name);
  if (value instanceof Loop) return value.attribute(name);
  return methodOf(value, name);
}

function item(value: Value, key: Value): Value | undefined {
  if (isDict(value)) return isKey(key) ? value.get(keyOf(key)) : undefined;
  if (value instanceof Range) return unsupported("an item of a range");
  const all = isText(value) ? characters(text(value)) : value instanceof Tuple ? value.items : value;
  if (!Array.isArray(all)) return undefined;
  const index = typeof key === "boolean" ? Number(key) : typeof key === "bigint" ? Number(key) : undefined;
  return index === undefined ? undefined : all.at(index);
}

/** `a[start:stop:step]` of a text, a list or a tuple. */
export function slice(value: Value, bounds: readonly (Value | undefined)[]): Value {
  const [start, stop, step = 1] = bounds.map((bound) => {
    if (bound === undefined || bound === null) return undefined;
    if (typeof bound === "bigint" || typeof bound === "boolean") return Number(bound);
    return fail("the bounds of a slice must be whole numbers");
  });
  if (step === 0) return fail("a slice cannot have the step 0");
  const cut = <T>(all: readonly T[]): T[] => {
    const clamp = (at: number, least: number, most: number) =>
      Math.min(Math.max(at < 0 ? at + all.length : at, least), most);
    const back = step < 0;
    const [least, most] = back ? [-1, all.length - 1] : [0, all.length];
    const from = start === undefined ? (back ? most : least) : clamp(start, least, most);
    const to = stop === undefined ? (back ? least : most) : clamp(stop, least, most);
    const taken: T[] = [];
    for (let at = from; back ? at > to : at < to; at += step) taken.push(all[at] as T);
    return taken;
  };
  if (typeof value === "string") return cut(characters(value)).join("");
  if (Array.isArray(value)) return cut(value);
  if (value instanceof Tuple) return new Tuple(cut(value.items));
  if (value instanceof Range) return unsupported("a slice of a range");
  return fail(`a value of type ${typeName(value)} has no slices`);
}

/** Jinja's tests: `x is defined`, and as `select` and `selectattr` name them. */
import { operate } from "./operators.js";
import {
  contains,
  fail,
  Generator,
  isDict,
  isNumber,
  isText,
  lengthOf,
  Range,
  typeName,
  Undefined,
  unsupported,
  type Value,
  View,
} from "./values.js";

type Test = (value: Value, ...args: readonly Value[]) => boolean;

const remainderOfTwo = (value: Value) =>
  isNumber(value)
    ? Number(typeof value === "bigint" ? value % 2n : value) % 2
    : fail(`a value of type ${typeName(value)} cannot be divided`);

/** Operators, each with its other names. */
const COMPARISONS = [
  ["==", "eq", "equalto"],
  ["!=", "ne"],
  ["<", "lt", "lessthan"],
  ["<=", "le"],
  [">", "gt", "greaterthan"],
  [">=", "ge"],
] as const;
const comparisons = COMPARISONS.flatMap((names) =>
  names.map((name): [string, Test] => [name, (value, other) => operate(names[0], value, other as Value) === true]),
);

/** By their names. The arguments that a test takes are those of its function. */
const tests: ReadonlyMap<string, Test> = new Map([
  ...comparisons,
  ...Object.entries<Test>({
    boolean: (value) => typeof value === "boolean",
    defined: (value) => !(value instanceof Undefined),
    undefined: (value) => value instanceof Undefined,
    none: (value) => value === null,
    true: (value) => value === true,
    false: (value) => value === false,
    string: isText,
    number: isNumber,
    integer: (value) => typeof value === "bigint",
    float: (value) => typeof value === "number",
    mapping: isDict,
    sequence: (value) => (!(value instanceof View) || value instanceof Range) && lengthOf(value) !== undefined,
    // A generator would be gone through by looking.
    iterable: (value) => value instanceof Generator || lengthOf(value) !== undefined,
    odd: (value) => Math.abs(remainderOfTwo(value)) === 1,
    even: (value) => remainderOfTwo(value) === 0,
    in: (value, whole) => contains(whole as Value, value),
    sameas: (value, other) =>
      other === null || typeof other === "boolean" ? value === other : unsupported("sameas of other than a constant"),
  }),
]);

/** @throws TemplateError for a test that hone lacks, and for arguments that it does not take */
export function holds(name: string, value: Value, args: readonly Value[] = []): boolean {
  const test = tests.get(name) ?? unsupported(`the test ${name}`);
  if (args.length !== test.length - 1) return fail(`the test ${name} takes ${test.length - 1} arguments`);
  return test(value, ...args);
}

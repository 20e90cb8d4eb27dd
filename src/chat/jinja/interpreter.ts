/**
 * Runs a template as Jinja runs it for transformers: the sandbox that changes no object, with loop controls. What it
 * lacks, it refuses by name; it never writes something else in its place.
 */
import { attribute, orUndefined, slice, subscript } from "./access.js";
import { filtered } from "./filters.js";
import { operate, signed } from "./operators.js";
import type {
  Argument,
  Assignment,
  Body,
  Call,
  Expression,
  ForLoop,
  MacroOf,
  Member,
  Name,
  Parameter,
  Statement,
  TupleOf,
} from "./syntax.js";
import { holds } from "./tests.js";
import {
  Callable,
  type Dict,
  fail,
  isDict,
  items,
  type Keywords,
  Lazy,
  Loop,
  Namespace,
  neededKey,
  Tuple,
  text,
  truth,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

const NONE: Keywords = new Map();
/** Python's limit of a sandbox. */
const LONGEST_RANGE = 100_000;
const COMPARISONS = ["==", "!=", "<", "<=", ">", ">=", "in", "not in"];

class Break {}
class Continue {}

/** Variables of a loop's pass, a macro or a block; reading goes on in the scope around. */
export class Scope {
  readonly #values = new Map<string, Value>();

  constructor(readonly around?: Scope) {}

  find(name: string): Value | undefined {
    const own = this.#values.get(name);
    return own === undefined ? this.around?.find(name) : own;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}

function rangeOf(args: readonly Value[]): Lazy {
  const numbers = args.map((one) => (typeof one === "bigint" ? Number(one) : fail("range is of whole numbers")));
  const [start, stop, step = 1] = numbers.length === 1 ? [0, numbers[0]] : numbers;
  if (start === undefined || stop === undefined || numbers.length > 3) return fail("range takes one to three numbers");
  if (step === 0) return fail("a range cannot have the step 0");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > LONGEST_RANGE) return fail("a range is too long");
  return new Lazy(
    "range",
    Array.from({ length }, (_, index) => BigInt(start + index * step)),
  );
}

/** The items of dicts and of named arguments. @param what makes them one, for the message */
function together(what: string, dicts: readonly Value[], keywords: Keywords): Dict {
  const all = dicts.flatMap((one) => (isDict(one) ? [...one] : unsupported(`${what} of other than a dict`)));
  return new Map([...all, ...keywords]);
}

function namespaceOf(args: readonly Value[], keywords: Keywords): Namespace {
  const all = together("a namespace", args, keywords);
  return new Namespace(new Map([...all].map(([key, value]) => [String(key), value])));
}

/** The scope around a template's variables. */
export function outermost(): Scope {
  const all = new Scope();
  const functions = [
    new Callable("range", (args) => rangeOf(args)),
    new Callable("namespace", namespaceOf),
    new Callable("dict", (args, keywords) => together("dict()", args.slice(0, 1), keywords)),
    new Callable("raise_exception", ([message]) => fail(text(message ?? null))),
  ];
  for (const one of functions) all.set(one.name, one);
  const constants = { true: true, True: true, false: false, False: false, none: null, None: null };
  for (const [name, value] of Object.entries(constants)) all.set(name, value);
  return all;
}
const MISSING_GLOBALS = ["cycler", "joiner", "lipsum", "self", "super"];

/** Whether a name occurs in a part of the tree. */
function mentions(node: unknown, name: string): boolean {
  if (Array.isArray(node)) return node.some((one) => mentions(one, name));
  if (node instanceof Map) return [...node].some((entry) => mentions(entry, name));
  if (typeof node !== "object" || node === null) return false;
  if ("type" in node && node.type === "Identifier") return (node as Name).value === name;
  return Object.values(node).some((one) => mentions(one, name));
}

export class Interpreter {
  readonly #chains: boolean;

  /**
   * @param chains whether the template has a chain of comparisons: Python reads a < b < c as a < b and b < c, and the
   * tree does not tell it from (a < b) < c
   */
  constructor(chains: boolean) {
    this.#chains = chains;
  }

  /** @throws TemplateError where transformers raises, and for what hone does not render */
  run(body: Body, scope: Scope): string {
    const out: string[] = [];
    this.#write(body, scope, out);
    return out.join("");
  }

  #write(body: Body, scope: Scope, out: string[]): void {
    for (const node of body) this.#statement(node, scope, out);
  }

  #statement(node: Statement, scope: Scope, out: string[]): void {
    switch (node.type) {
      case "Comment":
        return;
      case "If":
        this.#write(truth(this.#value(node.test, scope)) ? node.body : node.alternate, scope, out);
        return;
      case "For":
        this.#loop(node, scope, out);
        return;
      case "Break":
        throw new Break();
      case "Continue":
        throw new Continue();
      case "Set":
        this.#assign(node, scope);
        return;
      case "Macro":
        scope.set(node.name.value, this.#macro(node.name.value, node, scope));
        return;
      case "CallStatement": {
        const { call, callerArgs, body } = node;
        const caller = this.#macro("caller", { args: callerArgs ?? [], body }, scope);
        out.push(text(this.#call(call, scope, new Map([["caller", caller]]))));
        return;
      }
      case "FilterStatement":
        out.push(text(this.#filtered(this.run(node.body, new Scope(scope)), node.filter, scope)));
        return;
      default:
        out.push(text(this.#value(node, scope)));
    }
  }

  #loop({ loopvar, iterable, body, defaultBlock }: ForLoop, scope: Scope, out: string[]): void {
    const filter = iterable.type === "SelectExpression" ? iterable.test : undefined;
    const all = items(this.#value(iterable.type === "SelectExpression" ? iterable.lhs : iterable, scope));
    const passOf = (item: Value) => {
      const pass = new Scope(scope);
      this.#bind(loopvar, item, pass);
      return pass;
    };
    const chosen = filter ? all.filter((item) => truth(this.#value(filter, passOf(item)))) : all;
    let finished = false;
    for (const [index, item] of chosen.entries()) {
      const pass = passOf(item);
      pass.set("loop", new Loop(chosen, index));
      try {
        this.#write(body, pass, out);
        finished = true;
      } catch (error) {
        if (error instanceof Break) break;
        if (!(error instanceof Continue)) throw error;
      }
    }
    // Jinja writes it where no pass came to its end, be it that each was left by continue or break.
    if (!finished) this.#write(defaultBlock, new Scope(scope), out);
  }

  #bind(target: Expression, value: Value, scope: Scope): void {
    if (target.type === "Identifier") scope.set(target.value, value);
    else if (target.type === "TupleLiteral") this.#unpack(target, value, scope);
    else if (target.type === "MemberExpression" && !target.computed && target.property.type === "Identifier") {
      const owner = this.#value(target.object, scope);
      if (!(owner instanceof Namespace)) fail("a template can assign to attributes of a namespace alone");
      owner.values.set(target.property.value, value);
    } else unsupported("such an assignment");
  }

  #unpack({ value: targets }: TupleOf, value: Value, scope: Scope): void {
    const all = items(value);
    if (all.length !== targets.length) fail(`${all.length} values cannot be given to ${targets.length} names`);
    for (const [index, target] of targets.entries()) this.#bind(target, all[index] as Value, scope);
  }

  #assign({ assignee, value, body }: Assignment, scope: Scope): void {
    if (value) {
      this.#bind(assignee, this.#value(value, scope), scope);
      return;
    }
    const filters = [];
    let target = assignee;
    for (; target.type === "FilterExpression"; target = target.operand) filters.unshift(target.filter);
    let written: Value = this.run(body, new Scope(scope));
    for (const filter of filters) written = this.#filtered(written, filter, scope);
    this.#bind(target, written, scope);
  }

  #macro(name: string, { args: parameters, body }: Pick<MacroOf, "args" | "body">, scope: Scope): Callable {
    const special = ["varargs", "kwargs"].find((one) => mentions(body, one));
    return new Callable(name, (args, keywords) => {
      if (special) return unsupported(`${special} of a macro`);
      const inside = new Scope(scope);
      const rest = new Map(keywords);
      const caller = rest.get("caller");
      if (caller !== undefined && mentions(body, "caller")) {
        inside.set("caller", caller);
        rest.delete("caller");
      }
      this.#parameters(name, parameters, args, rest, inside);
      return this.run(body, inside);
    });
  }

  #parameters(
    name: string,
    parameters: readonly Parameter[],
    args: readonly Value[],
    keywords: Map<string, Value>,
    scope: Scope,
  ): void {
    if (args.length > parameters.length) fail(`the macro ${name} takes at most ${parameters.length} arguments`);
    const late: (() => void)[] = [];
    for (const [index, parameter] of parameters.entries()) {
      const own = parameter.type === "Identifier" ? parameter.value : parameter.key.value;
      if (index < args.length && keywords.has(own)) fail(`the macro ${name} gets ${own} twice`);
      const value = index < args.length ? args[index] : keywords.get(own);
      keywords.delete(own);
      scope.set(own, orUndefined(value, own));
      if (value === undefined && parameter.type !== "Identifier") {
        late.push(() => scope.set(own, this.#value(parameter.value, scope)));
      }
    }
    const [unknown] = keywords.keys();
    if (unknown !== undefined) fail(`the macro ${name} takes no argument ${unknown}`);
    for (const evaluate of late) evaluate();
  }

  #call({ callee, args }: Call, scope: Scope, more: Keywords = NONE): Value {
    const called = this.#value(callee, scope);
    const [positional, keywords] = this.#arguments(args, scope);
    if (called instanceof Callable) return called.call(positional, new Map([...keywords, ...more]));
    return called instanceof Undefined
      ? fail(`${called.name} is undefined, so it cannot be called`)
      : fail(`a value of type ${typeName(called)} cannot be called`);
  }

  #arguments(args: readonly Argument[], scope: Scope): [Value[], Map<string, Value>] {
    const positional: Value[] = [];
    const keywords = new Map<string, Value>();
    for (const one of args) {
      if (one.type === "KeywordArgumentExpression") keywords.set(one.key.value, this.#value(one.value, scope));
      else if (one.type === "SpreadExpression") positional.push(...items(this.#value(one.argument, scope)));
      else if (one.type === "KeywordSpreadExpression") {
        const given = this.#value(one.argument, scope);
        if (!isDict(given)) return fail("what stands behind ** must be a dict");
        for (const [key, value] of given) keywords.set(String(key), value);
      } else positional.push(this.#value(one, scope));
    }
    return [positional, keywords];
  }

  #filtered(value: Value, filter: Name | Call, scope: Scope): Value {
    if (filter.type === "Identifier") return filtered(filter.value, value, [], NONE);
    if (filter.callee.type !== "Identifier") return unsupported("such a filter");
    const [args, keywords] = this.#arguments(filter.args, scope);
    return filtered(filter.callee.value, value, args, keywords);
  }

  #name({ value: name }: Name, scope: Scope): Value {
    const found = scope.find(name);
    if (found === undefined && MISSING_GLOBALS.includes(name)) return unsupported(name);
    return orUndefined(found, name);
  }

  #member({ object, property, computed }: Member, scope: Scope): Value {
    const value = this.#value(object, scope);
    if (property.type === "SliceExpression") {
      const { start, stop, step } = property;
      return slice(
        value,
        [start, stop, step].map((bound) => bound && this.#value(bound, scope)),
      );
    }
    if (!computed && property.type === "Identifier") return attribute(value, property.value);
    return subscript(value, this.#value(property, scope));
  }

  #value(node: Expression, scope: Scope): Value {
    switch (node.type) {
      case "StringLiteral":
      case "FloatLiteral":
        return node.value;
      case "IntegerLiteral":
        return Number.isSafeInteger(node.value) ? BigInt(node.value) : unsupported(`the number ${node.value}`);
      case "ArrayLiteral":
        return node.value.map((one) => this.#value(one, scope));
      case "TupleLiteral":
        return Tuple.from(node.value, (one) => this.#value(one, scope));
      case "ObjectLiteral":
        return new Map(
          [...node.value].map(([key, one]) => [neededKey(this.#value(key, scope)), this.#value(one, scope)]),
        );
      case "Identifier":
        return this.#name(node, scope);
      case "MemberExpression":
        return this.#member(node, scope);
      case "CallExpression":
        return this.#call(node, scope);
      case "FilterExpression":
        return this.#filtered(this.#value(node.operand, scope), node.filter, scope);
      case "TestExpression":
        return holds(node.test.value, this.#value(node.operand, scope)) !== node.negate;
      case "UnaryExpression": {
        const value = this.#value(node.argument, scope);
        return node.operator.value === "not" ? !truth(value) : signed(node.operator.value, value);
      }
      case "BinaryExpression":
        return this.#binary(node.operator.value, node.left, node.right, scope);
      case "Ternary":
        return this.#value(truth(this.#value(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
      case "SelectExpression":
        return truth(this.#value(node.test, scope)) ? this.#value(node.lhs, scope) : new Undefined("what has no else");
      default:
        return unsupported(`a ${(node as { type: string }).type}`);
    }
  }

  #binary(operator: string, left: Expression, right: Expression, scope: Scope): Value {
    const nested = left.type === "BinaryExpression" && COMPARISONS.includes(left.operator.value);
    if (nested && this.#chains && COMPARISONS.includes(operator)) return unsupported("a chain of comparisons");
    const value = this.#value(left, scope);
    if (operator === "and") return truth(value) ? this.#value(right, scope) : value;
    if (operator === "or") return truth(value) ? value : this.#value(right, scope);
    return operate(operator, value, this.#value(right, scope));
  }
}

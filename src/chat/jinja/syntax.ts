/** The syntax tree that @huggingface/jinja parses a template to, as far as its package does not export its types. */
import type { parse, tokenize } from "@huggingface/jinja";

interface Of<Type extends string> {
  readonly type: Type;
}

export type Parameter = Name | NamedArgument;
export interface Name extends Of<"Identifier"> {
  readonly value: string;
}
export interface NamedArgument extends Of<"KeywordArgumentExpression"> {
  readonly key: Name;
  readonly value: Expression;
}
export interface Call extends Of<"CallExpression"> {
  readonly callee: Expression;
  readonly args: readonly Argument[];
}
export interface Slice extends Of<"SliceExpression"> {
  readonly start?: Expression;
  readonly stop?: Expression;
  readonly step?: Expression;
}
export interface Member extends Of<"MemberExpression"> {
  readonly object: Expression;
  readonly property: Expression | Slice;
  /** Whether it is written in brackets. */
  readonly computed: boolean;
}
export interface Filtered extends Of<"FilterExpression"> {
  readonly operand: Expression;
  readonly filter: Name | Call;
}
export interface Condition extends Of<"SelectExpression"> {
  readonly lhs: Expression;
  readonly test: Expression;
}
export interface Binary extends Of<"BinaryExpression"> {
  readonly operator: { readonly value: string };
  readonly left: Expression;
  readonly right: Expression;
}
export interface TupleOf extends Of<"TupleLiteral"> {
  readonly value: readonly Expression[];
}

export interface Spread extends Of<"SpreadExpression"> {
  readonly argument: Expression;
}
export interface NamedSpread extends Of<"KeywordSpreadExpression"> {
  readonly argument: Expression;
}

export type Argument = Expression | NamedArgument | Spread | NamedSpread;

export type Expression =
  | (Of<"IntegerLiteral" | "FloatLiteral"> & { readonly value: number })
  | (Of<"StringLiteral"> & { readonly value: string })
  | (Of<"ArrayLiteral"> & { readonly value: readonly Expression[] })
  | (Of<"ObjectLiteral"> & { readonly value: ReadonlyMap<Expression, Expression> })
  | (Of<"UnaryExpression"> & { readonly operator: { readonly value: string }; readonly argument: Expression })
  | (Of<"TestExpression"> & { readonly operand: Expression; readonly negate: boolean; readonly test: Name })
  | (Of<"Ternary"> & {
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    })
  | TupleOf
  | Name
  | Call
  | Member
  | Filtered
  | Condition
  | Binary;

export interface ForLoop extends Of<"For"> {
  readonly loopvar: Name | TupleOf;
  readonly iterable: Expression;
  readonly body: Body;
  /** Its `else`. */
  readonly defaultBlock: Body;
}
export interface Assignment extends Of<"Set"> {
  readonly assignee: Expression;
  /** Null: the text of the body is assigned. */
  readonly value: Expression | null;
  readonly body: Body;
}
export interface MacroOf extends Of<"Macro"> {
  readonly name: Name;
  readonly args: readonly Parameter[];
  readonly body: Body;
}
export interface CallBlock extends Of<"CallStatement"> {
  readonly call: Call;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: Body;
}

export type Statement =
  | Of<"Comment" | "Break" | "Continue">
  | (Of<"If"> & { readonly test: Expression; readonly body: Body; readonly alternate: Body })
  | (Of<"FilterStatement"> & { readonly filter: Name | Call; readonly body: Body })
  | ForLoop
  | Assignment
  | MacroOf
  | CallBlock
  | Expression;

export type Body = readonly Statement[];

export const bodyOf = (program: ReturnType<typeof parse>): Body => program.body;

/** Words that end one operand of `and`, `or` and their kind, and begin another. */
const BETWEEN = ["and", "or", "not", "if", "elif", "else"];

/** Whether comparisons follow each other without brackets, as in `a < b < c`. */
export function hasChains(tokens: ReturnType<typeof tokenize>): boolean {
  /** Whether there was a comparison already, in each bracket that is open. */
  let open = [false];
  for (const [index, { type, value }] of tokens.entries()) {
    const before = tokens[index - 1];
    const isWord = type === "Identifier" && before?.type !== "Dot";
    if (/^Open(Statement|Expression)$/.test(type)) open = [false];
    else if (type.startsWith("Open")) open.push(false);
    else if (type.startsWith("Close")) open.pop();
    else if (type === "ComparisonBinaryOperator" || (isWord && value === "in")) {
      if (open.at(-1)) return true;
      open[open.length - 1] = true;
    } else if (["Comma", "Colon", "Equals"].includes(type) || (isWord && BETWEEN.includes(value))) {
      const isNotIn = value === "not" && tokens[index + 1]?.value === "in";
      if (!isNotIn) open[open.length - 1] = false;
    }
  }
  return false;
}

/** Forms of a judge's answers, as JSON Schemas. */

type Schema = Record<string, unknown>;

export interface AnswerForm {
  readonly name: string;
  /** For any server that takes a schema: some refuse bounds of lengths and numbers. */
  readonly schema: Schema;
  /**
   * For a judge that is held to every keyword of a schema: every answer in this form can be used, and ends within so many tokens.
   * A small model whose texts are not bounded repeats itself until it is cut off. Missing where no such judge is asked.
   */
  readonly within?: (tokens: number) => Schema;
}

/** An object with these properties, in this order, and no others. */
export const objectOf = (properties: Readonly<Record<string, object>>): Schema => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
});

/** A text of at most so many characters. A character is a token at most, but for rare ones. */
export const textWithin = (characters: number) => ({ type: "string", maxLength: Math.max(0, characters) });

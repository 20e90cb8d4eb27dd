/**
 * Jinja as transformers uses it for chat templates. @huggingface/jinja parses; its interpreter writes JavaScript's values
 * where Jinja writes Python's, so hone has one of its own.
 */
export { jsonText } from "./json.js";
export { JinjaTemplate, type TemplateFunction } from "./template.js";
export { asValue, UnsupportedTemplate } from "./values.js";

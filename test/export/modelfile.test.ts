/** Ollama's Modelfile. The template was compared by Go's text/template with what each model's own renders: docs/export.md. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelfileText, ollamaTemplate } from "../../src/machine/export/modelfile.js";
import { llamaCppFiles } from "../support/bundle.js";

const published = (name: string) => readFileSync(join(llamaCppFiles(), `models/templates/${name}.jinja`), "utf8");
const source = {
  "Qwen2.5": () => published("Qwen-Qwen2.5-7B-Instruct"),
  Qwen3: () => published("Qwen-Qwen3-0.6B"),
  "Llama 3.2": () => published("meta-llama-Llama-3.2-3B-Instruct"),
  tiny: () => readFileSync(join(packageRoot, "models/tiny/chat_template.jinja"), "utf8"),
};

describe("a chat template in Ollama's language", () => {
  it("has the system message that the model has by default, and the tools as the model's own template lists them", () => {
    const { template, tools } = ollamaTemplate(source["Qwen2.5"](), "m");
    expect(tools).toBe(true);
    const usual = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";
    expect(template).toContain(`{{ else }}<|im_start|>system\n${usual}<|im_end|>\n{{ end }}`);
    expect(template).toContain(
      '<tools>\n{{ range $n, $tool := $.Tools }}{{ if $n }}\n{{ end }}{"type": "function", "function": {{ $tool.Function }}}{{ end }}\n</tools>',
    );
    expect(template).toContain(
      '<tool_call>\n{"name": "{{ $call.Function.Name }}", "arguments": {{ $call.Function.Arguments }}}\n</tool_call>',
    );
    expect(template).toContain("<|im_start|>user\n<tool_response>\n{{ .Content }}\n</tool_response><|im_end|>\n");
  });

  it("writes nothing of a system message where the model has none by default", () => {
    const { template } = ollamaTemplate(source.Qwen3(), "m");
    expect(template).toContain("{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ else }}{{ end }}");
  });

  it("of Llama 3.2 lists tools in the first question", () => {
    const { template, tools } = ollamaTemplate(source["Llama 3.2"](), "m");
    expect(tools).toBe(true);
    expect(template).toMatch(
      /\{\{ if and \$\.Tools \$first \}\}Given the following functions.*\{\{ range \$n, \$tool/s,
    );
    expect(template).toContain("Today Date: 26 Jul 2024\n\n{{ .System }}<|eot_id|>");
    expect(template).toContain("<|start_header_id|>ipython<|end_header_id|>\n\n{{ json .Content }}<|eot_id|>");
  });

  it("writes a tool's result with the role that the model's own template gives it", () => {
    const result = (source: string) =>
      /\{\{ else if eq \.Role "tool" \}\}(.*?)\{\{ end \}\}\{\{ if and/s.exec(
        ollamaTemplate(source, "m").template,
      )?.[1];
    const own = `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;
    expect(result(own)).toBe("<|im_start|>tool\n{{ .Content }}<|im_end|>\n");
    expect(result(published("LFM2-8B-A1B"))).toBe(
      "<|im_start|>tool\n<|tool_response_start|>{{ .Content }}<|tool_response_end|><|im_end|>\n",
    );
    const asJson = own.replace("{{ m.content }}", "{{ m.content | tojson if m.role == 'tool' else m.content }}");
    expect(result(asJson)).toBe("<|im_start|>tool\n{{ json .Content }}<|im_end|>\n");
  });

  it("leaves results out where the model's own template refuses them", () => {
    const refusing = source
      .Qwen3()
      .replace('message.role == "tool"', "message.role == 'tool' and raise_exception('no tools here')");
    expect(ollamaTemplate(refusing, "m").template).not.toContain('eq .Role "tool"');
  });

  it("has no tools where the model lists them in a form of its own", () => {
    const { template, tools } = ollamaTemplate(source.tiny(), "m");
    expect(tools).toBe(false);
    expect(template).not.toContain(".Tools");
  });

  it("is refused where the turns are others", () => {
    expect(() => ollamaTemplate("{% for m in messages %}[INST]{{ m.content }}[/INST]{% endfor %}", "m.gguf")).toThrow(
      /the chat template of m\.gguf is none that hone can write for Ollama; take --to gguf/,
    );
  });

  it("keeps double braces of the model's own text as text", () => {
    const text = source.Qwen3().replace("# Tools", "# Tools {{ '{{' }}");
    expect(ollamaTemplate(text, "m").template).toContain('# Tools {{ "{{" }}');
  });
});

it("a Modelfile names the model's file, its template, where turns end, and how it was sampled", () => {
  const { template } = ollamaTemplate(source.tiny(), "m");
  const text = modelfileText({ file: "model-q8_0.gguf", template, temperature: 0.7, context: 2048 });
  expect(text).toMatch(/^# Made by hone\. Not run with Ollama\.\nFROM \.\/model-q8_0\.gguf\nTEMPLATE """/);
  expect(text).toMatch(/"""\nPARAMETER temperature 0\.7\nPARAMETER num_ctx 2048\nPARAMETER stop "<\|im_end\|>"\n$/);
});

/**
 * An agent of the AI SDK that is trained: the one of its page "Building Agents" (ai-sdk.dev), two tools and a loop, with one
 * line changed, the model. Around it are the scenarios and the reward, which training needs.
 *
 *     npm install ai    # not needed in a clone of hone, which has it
 *     yarn rollout --task examples/ai-sdk-agent.ts --model qwen2.5-0.5b --n 4 --show
 *     yarn train --task examples/ai-sdk-agent.ts --model qwen2.5-0.5b
 */
import { type AgentContext, defineTask, Random, type Scenario, z } from "@hone-rl/hone";
import { stepCountIs, ToolLoopAgent, tool } from "ai";

interface Weather extends Scenario {
  readonly location: string;
  readonly fahrenheit: number;
}

const celsiusOf = (fahrenheit: number) => Math.round((fahrenheit - 32) * (5 / 9));

/** A weather service that knows this scenario's weather. */
const temperatureIn = ({ location: known, fahrenheit }: Weather, location: string) =>
  location.toLowerCase().includes(known.toLowerCase()) ? fahrenheit : 60;

const weatherAgent = ({ model, scenario }: Pick<AgentContext<Weather>, "model" | "scenario">) =>
  new ToolLoopAgent({
    model, // in the documentation a provider's: openai("gpt-4o")
    tools: {
      weather: tool({
        description: "Get the weather in a location (in Fahrenheit)",
        inputSchema: z.object({
          location: z.string().describe("The location to get the weather for"),
        }),
        execute: async ({ location }) => ({
          location,
          temperature: temperatureIn(scenario, location),
        }),
      }),
      convertFahrenheitToCelsius: tool({
        description: "Convert temperature from Fahrenheit to Celsius",
        inputSchema: z.object({
          temperature: z.number().describe("Temperature in Fahrenheit"),
        }),
        execute: async ({ temperature }) => ({ celsius: celsiusOf(temperature) }),
      }),
    },
    stopWhen: stepCountIs(6),
  });

const places = [
  "San Francisco",
  "Oslo",
  "Nairobi",
  "Lima",
  "Kyoto",
  "Tallinn",
  "Perth",
  "Cairo",
  "Quito",
  "Hanoi",
  "Bergen",
  "Lagos",
  "Denver",
  "Porto",
  "Riga",
  "Sydney",
  "Tunis",
  "Zagreb",
  "Boston",
  "Manila",
];

export default defineTask<Weather>({
  name: "ai-sdk-agent",
  description: "Say the weather in Celsius, with tools that speak Fahrenheit",
  scenarios: ({ seed }) =>
    places.map((location, index) => ({
      id: location.toLowerCase().replaceAll(" ", "-"),
      split: index % 5 === 0 ? "test" : "train",
      question: `What is the weather in ${location} in celsius?`,
      location,
      fahrenheit: new Random("weather", seed, location).integer(-4, 104),
    })),

  /** 1 for the right temperature, 0.3 for the right question to the service, 0.2 for the conversion of its answer. */
  rollout: async ({ scenario, model, signal }) => {
    const result = await weatherAgent({ model, scenario }).generate({ prompt: scenario.question, abortSignal: signal });
    const calls = result.steps.flatMap(({ toolResults }) => toolResults);
    const asked = calls.some(({ output }) => (output as { temperature?: number }).temperature === scenario.fahrenheit);
    const celsius = celsiusOf(scenario.fahrenheit);
    const converted = asked && calls.some(({ output }) => (output as { celsius?: number }).celsius === celsius);
    const said = new RegExp(`(?<![\\d.-])${celsius}(?![\\d.]\\d)(?!\\d)`).test(result.text.replaceAll("−", "-"));
    const right = converted && said;
    return {
      reward: right ? 1 : (asked ? 0.3 : 0) + (converted ? 0.2 : 0),
      success: right,
      parts: { asked: asked ? 1 : 0, converted: converted ? 1 : 0, said: said ? 1 : 0 },
    };
  },
});

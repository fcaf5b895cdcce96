// What a client program does with the Vercel AI SDK; prints one JSON value per job.
import { generateText, stepCountIs, streamText, tool, jsonSchema } from "ai";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [client, url, jobs] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];
globalThis.AI_SDK_LOG_WARNINGS = false;
const apiKey = "client-key";
const providers = {
  compatible: (name) => createOpenAICompatible({ name: "c", baseURL: `${url}/openai/v1`, apiKey, includeUsage: true })(name),
  responses: (name) => createOpenAI({ baseURL: `${url}/openai/v1`, apiKey })(name),
  messages: (name) => createAnthropic({ baseURL: `${url}/anthropic/v1`, apiKey })(name),
  gemini: (name) => createGoogleGenerativeAI({ baseURL: `${url}/gemini/v1beta`, apiKey })(name),
};
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };

const scenarios = {
  async plain(model) {
    const { text, usage } = await generateText({ model, system: "Be brief.", prompt: "Hi", maxRetries: 0 });
    return { text, output: usage.outputTokens > 0 };
  },
  async streamed(model) {
    const result = streamText({ model, prompt: "one two three", maxRetries: 0 });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return { text, output: (await result.usage).outputTokens > 0 };
  },
  async tool(model) {
    let called;
    const tools = {
      get_weather: tool({
        description: "w",
        inputSchema: jsonSchema(schema),
        execute: async (input) => { called = input; return "4 degrees"; },
      }),
    };
    const { text } = await generateText({ model, tools, prompt: "call get_weather", stopWhen: stepCountIs(3), maxRetries: 0 });
    return { name: "get_weather", arguments: called, text };
  },
  async streamed_tool(model) {
    let called;
    const tools = {
      get_weather: tool({
        description: "w",
        inputSchema: jsonSchema(schema),
        execute: async (input) => { called = input; return "4 degrees"; },
      }),
    };
    const result = streamText({ model, tools, prompt: "call get_weather", stopWhen: stepCountIs(3), maxRetries: 0 });
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return { name: "get_weather", arguments: called, text };
  },
  async broken(model) {
    const result = streamText({ model, prompt: "one two three", maxRetries: 0, onError: () => {} });
    for await (const part of result.fullStream) if (part.type === "error") return String(part.error?.message ?? part.error);
    return null;
  },
  async image(model) {
    const content = [{ type: "text", text: "What is this?" }, { type: "image", image: Buffer.from(pixel, "base64") }];
    const { text } = await generateText({ model, messages: [{ role: "user", content }], maxRetries: 0 });
    return { text };
  },
  async error(model) {
    try { await generateText({ model, prompt: "Hi", maxRetries: 0 }); } catch (error) {
      return { status: error.statusCode, message: error.message, retry: error.responseHeaders["retry-after"] };
    }
    return null;
  },
};

const said = [];
for (const [scenario, model] of jobs) said.push(await scenarios[scenario](providers[client](model)));
console.log(JSON.stringify(said));

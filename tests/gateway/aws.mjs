// What a client program does with the AWS SDK for JavaScript, which speaks HTTP/2; prints one JSON value per job.
import { BedrockRuntimeClient, ConverseCommand, ConverseStreamCommand } from "@aws-sdk/client-bedrock-runtime";

const [url, jobs, accessKeyId, secretAccessKey] = [process.argv[2], JSON.parse(process.argv[3]), process.argv[4], process.argv[5]];
const client = new BedrockRuntimeClient({
  region: "us-east-1", endpoint: url, maxAttempts: 1, credentials: { accessKeyId, secretAccessKey },
});
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const said = (text) => ({ role: "user", content: [{ text }] });
const ask = (input) => client.send(new ConverseCommand(input));

const scenarios = {
  async plain(modelId) {
    const { output, usage } = await ask({ modelId, messages: [said("Hi")], system: [{ text: "Be brief." }] });
    return { text: output.message.content[0].text, output: usage.outputTokens > 0 };
  },
  async streamed(modelId) {
    const { stream } = await client.send(new ConverseStreamCommand({ modelId, messages: [said("one two three")] }));
    let text = "", usage;
    for await (const event of stream) {
      text += event.contentBlockDelta?.delta?.text ?? "";
      usage = event.metadata?.usage ?? usage;
    }
    return { text, output: usage.outputTokens > 0 };
  },
  async tool(modelId) {
    const toolConfig = { tools: [{ toolSpec: { name: "get_weather", description: "w", inputSchema: { json: schema } } }] };
    const messages = [said("call get_weather")];
    const { output } = await ask({ modelId, messages, toolConfig });
    const { toolUse } = output.message.content.find((block) => block.toolUse);
    const toolResult = { toolUseId: toolUse.toolUseId, content: [{ text: "4 degrees" }] };
    messages.push(output.message, { role: "user", content: [{ toolResult }] });
    const final = await ask({ modelId, messages, toolConfig });
    return { name: toolUse.name, arguments: toolUse.input, text: final.output.message.content[0].text };
  },
  async streamed_tool(modelId) {
    const toolConfig = { tools: [{ toolSpec: { name: "get_weather", description: "w", inputSchema: { json: schema } } }] };
    const messages = [said("call get_weather")];
    let toolUse, input = "", text = "";
    let { stream } = await client.send(new ConverseStreamCommand({ modelId, messages, toolConfig }));
    for await (const event of stream) {
      toolUse = event.contentBlockStart?.start?.toolUse ?? toolUse;
      input += event.contentBlockDelta?.delta?.toolUse?.input ?? "";
    }
    toolUse = { ...toolUse, input: JSON.parse(input) };
    const toolResult = { toolUseId: toolUse.toolUseId, content: [{ text: "4 degrees" }] };
    messages.push({ role: "assistant", content: [{ toolUse }] }, { role: "user", content: [{ toolResult }] });
    ({ stream } = await client.send(new ConverseStreamCommand({ modelId, messages, toolConfig })));
    for await (const event of stream) text += event.contentBlockDelta?.delta?.text ?? "";
    return { name: toolUse.name, arguments: toolUse.input, text };
  },
  async broken(modelId) {
    try {
      const { stream } = await client.send(new ConverseStreamCommand({ modelId, messages: [said("one two three")] }));
      for await (const event of stream) if (event.modelStreamErrorException) return event.modelStreamErrorException.message;
    } catch (error) { return error.message; }
    return null;
  },
  async image(modelId) {
    const image = { format: "png", source: { bytes: Buffer.from(pixel, "base64") } };
    const { output } = await ask({ modelId, messages: [{ role: "user", content: [{ text: "What is this?" }, { image }] }] });
    return { text: output.message.content[0].text };
  },
  async error(modelId) {
    try { await ask({ modelId, messages: [said("Hi")] }); } catch (error) {
      return { status: error.$metadata.httpStatusCode, message: error.message, kind: error.name };
    }
  },
};

const done = [];
for (const [scenario, model] of jobs) done.push(await scenarios[scenario](model));
console.log(JSON.stringify(done));
client.destroy();
// A stream that was left unread keeps its connection, and that keeps the process.
process.exit(0);

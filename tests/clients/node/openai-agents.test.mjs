// OpenAI's Agents SDK for Node, as its documentation shows it for other servers, over responses and over chats.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent, run, setDefaultOpenAIClient, setOpenAIAPI, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

setTracingDisabled(true);
setDefaultOpenAIClient(new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 }));

const weather = tool({
  name: "get_weather",
  description: "Get the weather of a city.",
  parameters: z.object({ city: z.string() }),
  execute: async ({ city }) => `15 degrees in ${city}`,
});

for (const api of ["responses", "chat_completions"]) {
  test(`${api}: a text and a conversation`, async () => {
    setOpenAIAPI(api);
    const agent = new Agent({ name: "Poet", instructions: "You write haiku.", model: "gpt-4o" });
    const result = await run(agent, "Write a haiku about water.");
    assert.match(result.finalOutput, /^Water finds/);
    const again = await run(agent, [...result.history, { role: "user", content: "Another haiku." }]);
    assert.equal(again.finalOutput, result.finalOutput);
  });

  for (const model of ["gpt-4o", "qwen3-sim"]) {
    test(`${api}: tools of ${model}, in one piece and in a stream`, async () => {
      setOpenAIAPI(api);
      const agent = new Agent({ name: "Weather", instructions: "Be brief.", tools: [weather], model });
      const result = await run(agent, "What is the weather in Paris?");
      assert.equal(result.finalOutput, "It is 15 degrees in Paris.");
      const streamed = await run(agent, "What is the weather in Paris?", { stream: true });
      let text = "";
      for await (const event of streamed) {
        if (event.type === "raw_model_stream_event" && event.data.type === "output_text_delta") text += event.data.delta;
      }
      await streamed.completed;
      assert.equal(text, result.finalOutput);
      assert.equal(streamed.finalOutput, result.finalOutput);
    });
  }

  test(`${api}: thoughts and an effort`, async () => {
    setOpenAIAPI(api);
    const modelSettings = { reasoning: { effort: "low" }, maxTokens: 32000 };
    const agent = new Agent({ name: "Thinker", model: "qwen3-sim", modelSettings });
    const result = await run(agent, "Write a haiku about water.");
    assert.match(result.finalOutput, /^Water finds/);
    const kinds = result.newItems.map((item) => item.type);
    assert.deepEqual(kinds, ["reasoning_item", "message_output_item"]);
  });

  test(`${api}: an object`, async () => {
    setOpenAIAPI(api);
    const outputType = z.object({ name: z.string(), day: z.enum(["Monday", "Friday"]) });
    const agent = new Agent({ name: "Reader", model: "gpt-4o", outputType, modelSettings: { maxTokens: 400 } });
    const result = await run(agent, "There is a fair on Friday.");
    assert.ok(["Monday", "Friday"].includes(result.finalOutput.day));
  });

  test(`${api}: a hand-over`, async () => {
    setOpenAIAPI(api);
    const weatherAgent = new Agent({ name: "weather", handoffDescription: "Knows the weather.", model: "gpt-4o" });
    const agent = Agent.create({ name: "Triage", instructions: "Hand over.", handoffs: [weatherAgent], model: "gpt-4o" });
    const result = await run(agent, "Please hand me over to the weather agent.");
    assert.equal(result.lastAgent?.name, "weather");
    assert.equal(result.finalOutput, "You are with the weather agent now.");
  });
}

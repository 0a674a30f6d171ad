// Vercel's AI SDK with its provider for servers that speak OpenAI's API: thoughts, tools and objects.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { embedMany, generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const penstock = createOpenAICompatible({
  name: "penstock",
  baseURL: process.env.BASE_URL,
  apiKey: process.env.API_KEY,
  includeUsage: true,
  supportsStructuredOutputs: true,
});

test("a text with its thought", async () => {
  const { text, reasoningText, usage } = await generateText({
    model: penstock("qwen3-sim"),
    prompt: "Write a haiku about water.",
    providerOptions: { penstock: { reasoningEffort: "medium" } },
  });
  assert.match(text, /^Water finds/);
  assert.equal(reasoningText.trim(), "Three lines.");
  assert.ok(usage.outputTokens > 0);
});

test("a stream with its thought", async () => {
  const result = streamText({ model: penstock("qwen3-sim"), prompt: "Write a haiku about water." });
  let text = "";
  let thought = "";
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") text += part.text;
    if (part.type === "reasoning-delta") thought += part.text;
  }
  assert.match(text, /does not ask\.$/);
  assert.equal(thought.trim(), "Three lines.");
  assert.ok((await result.usage).outputTokens > 0);
});

test("tools in steps of a stream", async () => {
  const result = streamText({
    model: penstock("qwen3-sim"),
    prompt: "What is the weather in Paris?",
    stopWhen: stepCountIs(3),
    tools: {
      get_weather: tool({
        description: "Get the weather of a city.",
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }) => `15 degrees in ${city}`,
      }),
    },
  });
  assert.equal(await result.text, "It is 15 degrees in Paris.");
  assert.equal((await result.steps).length, 2);
});

test("an object", async () => {
  const { output } = await generateText({
    model: penstock("gpt-4o"),
    maxOutputTokens: 300,
    prompt: "There is a fair on Friday.",
    output: Output.object({ schema: z.object({ name: z.string(), day: z.enum(["Monday", "Friday"]) }) }),
  });
  assert.ok(["Monday", "Friday"].includes(output.day));
});

test("completions and embeddings", async () => {
  const { text } = await generateText({ model: penstock.completionModel("gpt-4o"), prompt: "A haiku:" });
  assert.match(text, /^Water/);
  const { embeddings } = await embedMany({
    model: penstock.embeddingModel("text-embedding-3-small"),
    values: ["one", "three"],
  });
  assert.deepEqual(embeddings[0], [3, 0.5, 0.5]);
});

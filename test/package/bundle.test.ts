import { beforeAll, describe, expect, test } from "vitest";
import { bundled } from "./support/bundle.ts";
import { type Consumer, installed } from "./support/consumer.ts";

let consumer: Consumer;
beforeAll(async () => {
  consumer = await installed();
});

/** Returns the code of a user's bundle, and the packages and files in it. */
async function bundleOf(script: string) {
  const { code, sources } = await bundled(consumer, script);
  const packages = new Set(sources.flatMap((path) => /.*node_modules\/([^/]+)/.exec(path)?.[1] ?? []));
  return { code: code.text, packages: [...packages].sort(), sources };
}

// Texts that occur in the code of one part only: the handler, its queue, the client or the memory store.
const ofHandler = [
  "events could not be processed in waitUntil",
  "takes exactly one of query, header and pathSegment",
];
const ofQueue = "attemptTimeout";
const ofClient = ["/v2/listings", "/v2/webhooks/config"];
const ofMemoryStore = "memoryStore() forgets every event";

const found = (texts: readonly string[], code: string): readonly string[] =>
  texts.filter((text) => code.includes(text));

describe("sideEffects: false holds: a bundle has", () => {
  test("nothing of what is imported and not used", async () => {
    const { code, packages } = await bundleOf(
      `import { createWebhookHandler } from "stayhook"; import "stayhook/testing"; console.log(1);`,
    );
    expect(packages).toEqual([]);
    expect(code.replace(/^\/\/.*\n/gm, "").trim()).toBe("console.log(1);");
  });

  test("the client without the handler", async () => {
    const { code, packages } = await bundleOf(`export { StayhookClient } from "stayhook";`);
    expect(found(ofClient, code)).toEqual(ofClient);
    expect(found([...ofHandler, ofQueue, ofMemoryStore], code)).toEqual([]);
    expect(packages).toEqual(["ky", "stayhook", "zod"]);
  });

  test("the handler without the client: that is an object it is given", async () => {
    const { code, packages } = await bundleOf(
      `export { createWebhookHandler, sharedSecret } from "stayhook";`,
    );
    expect(found([...ofHandler, ofQueue], code)).toEqual([...ofHandler, ofQueue]);
    expect(found([...ofClient, ofMemoryStore], code)).toEqual([]);
    expect(packages).not.toContain("ky");
  });

  test("the memory store without either", async () => {
    const { code, packages } = await bundleOf(`export { memoryStore } from "stayhook";`);
    expect(found([ofMemoryStore], code)).toEqual([ofMemoryStore]);
    expect(found([...ofClient, ...ofHandler, ofQueue], code)).toEqual([]);
    expect(packages).toEqual(["stayhook"]);
  });

  test("a model without the client, and stay() without the models", async () => {
    expect((await bundleOf(`export { Booking } from "stayhook";`)).packages).toEqual(["stayhook", "zod"]);
    expect((await bundleOf(`export { stay } from "stayhook";`)).packages).toEqual(["stayhook"]);
  });
});

test("zod comes in its small form: a namespace import keeps the rest, such as its locales, out", async () => {
  const { sources } = await bundleOf(`export * from "stayhook";`);
  expect(sources.filter((path) => /zod\/v4\/locales\/(?!en\.js)/.test(path))).toEqual([]);
});

test("minified, an error still has its name", async () => {
  const script = `
    import * as stayhook from "stayhook";
    import { createSandbox } from "stayhook/testing";
    const { InvalidWriteError, AbortError, AccessTokenError, APIError, ConnectionError, ConnectionTimeoutError, InvalidArgumentError, ProcessingError, ResponseValidationError, StayhookError } = stayhook;
    const answer = (status) => ({ status, headers: new Headers(), body: undefined, method: "GET", path: "/" });
    const made = {
      StayhookError: new StayhookError("x"),
      AbortError: new AbortError("x"),
      AccessTokenError: new AccessTokenError("x"),
      ConnectionError: new ConnectionError("x"),
      ConnectionTimeoutError: new ConnectionTimeoutError("x"),
      InvalidArgumentError: new InvalidArgumentError({ path: [], message: "x" }),
      InvalidWriteError: new InvalidWriteError("x"),
      ProcessingError: new ProcessingError("x", { reason: "callback", retryable: true }),
      ResponseValidationError: new ResponseValidationError("GET /", [], {}),
    };
    const statuses = { 400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
      409: "ConflictError", 422: "UnprocessableEntityError", 429: "RateLimitError", 500: "InternalServerError", 418: "APIError" };
    for (const [status, name] of Object.entries(statuses)) made[name] = new stayhook[name](answer(Number(status)));
    try { createSandbox({ seed: "x" }); } catch (error) { made.thrown = error; }
    console.log(JSON.stringify(Object.entries(made).map(([name, error]) => [name, error.name, error.stack.split(":")[0]])));
    console.log(JSON.stringify(Object.keys(stayhook).filter((name) => name.endsWith("Error")).sort()));`;
  const minified = await bundled(consumer, script, { minify: true, platform: "node" });
  const code = minified.code.text;
  // The test is only valid if the bundler has renamed the class.
  expect(code).not.toMatch(/class (InvalidArgument|NotFound)Error/);
  const ran = await consumer.node(consumer.write("minified.mjs", code));
  expect(ran.stderr).toBe("");
  const [made = "", exported = ""] = ran.stdout.split("\n");
  const seen: [string, string, string][] = JSON.parse(made);
  for (const [name, shown] of seen) expect(shown).toBe(name === "thrown" ? "InvalidArgumentError" : name);
  expect(
    seen
      .map(([name]) => name)
      .filter((name) => name !== "thrown")
      .sort(),
  ).toEqual(JSON.parse(exported));
});

// No error of `client.webhookConfig` shows the secret of an endpoint's URL, although the platform's answer repeats the URL.

import { inspect } from "node:util";
import type { StayhookClient } from "stayhook";
import { describe, expect, it } from "vitest";
import { secretsIn } from "../../src/client/endpoint-secrets.ts";
import { clientOf, platform, type Reply } from "./support.ts";

const SECRET = "s3cret+of/the-endpoint~";
const query = `https://hooks.example/in?topic=bookings&key=${encodeURIComponent(SECRET)}`;
const inPath = "https://hooks.example/in/0123456789abcdef0123";
const config = (url: string) => ({ isActive: true, endpoints: { bookings: url } });

/** The ways in which an answer repeats a URL. */
const ways: Record<string, (url: string, status: number) => Reply> = {
  "in JSON": (url, status) => ({
    status,
    json: { message: `not allowed: ${url}.`, config: { [url]: [url] } },
  }),
  "in a page": (url, status) => ({ status, text: `<a href="${url.replaceAll("&", "&amp;")}">${url}</a>` }),
  "in a header": (url, status) => ({
    status,
    json: {},
    headers: { "x-callback": url, link: `<${url}>; rel="self"` },
  }),
  "encoded in a URL": (url, status) => ({ status, text: `/login?next=${encodeURIComponent(url)}` }),
  "as a redirect": (url) => ({ status: 302, headers: { location: url } }),
  "in a 200 that is no JSON": (url) => ({ text: `<html>${url}</html>` }),
  "in a 200 that is no configuration": (url) => ({ json: { isActive: true, endpoints: `${url} ` } }),
  "in a 200 that reports a failure": (url) => ({ json: { success: false, error: `cannot reach ${url}` } }),
  "in an answer that is no HTTP": (url) => ({
    raw: (response) => void response.socket?.end(`HTTP/1.1 ${url}\r\n\r\n`),
  }),
};

async function shownBy(replies: readonly Reply[], call: (client: StayhookClient) => Promise<unknown>) {
  const server = await platform((_, index) => replies[Math.min(index, replies.length - 1)]!);
  const error = await call(clientOf(server, { maxRetries: 0 })).then(
    // A write may be answered with anything.
    () => new Error("none"),
    (thrown) => thrown,
  );
  const { headers = new Headers(), body, issues } = error;
  const shown = [error.stack, error.message, inspect(error, { depth: 9, showHidden: true })];
  const more = [
    JSON.stringify(error),
    JSON.stringify(body),
    JSON.stringify([...headers]),
    JSON.stringify(issues),
  ];
  return {
    text: [...shown, ...more].join("\n"),
    requests: server.requests.map(({ method }) => method).join(),
  };
}

describe.each([query, inPath])("%s", (url) => {
  const secrets = secretsIn(config(url));
  const isHidden = (text: string) => {
    for (const secret of [...secrets, ...secrets.map(encodeURIComponent)]) expect(text).not.toContain(secret);
  };

  describe.each(Object.entries(ways))("%s", (_, reply) => {
    const given = config(url);
    it.each<[name: string, call: (client: StayhookClient) => Promise<unknown>]>([
      ["get", (client) => client.webhookConfig.get()],
      ["create", (client) => client.webhookConfig.create(given)],
      ["update", (client) => client.webhookConfig.update(given)],
      ["toggle", (client) => client.webhookConfig.toggle(true)],
      ["delete", (client) => client.webhookConfig.delete()],
      ["ensure", (client) => client.webhookConfig.ensure({ endpoints: given.endpoints })],
    ])("%s", async (_, call) => {
      isHidden((await shownBy([reply(url, 403)], call)).text);
    });
  });

  const none: Reply = { json: { data: null } };
  const says = (status: number) => ways["in JSON"]!(url, status);
  const old = { isActive: true, endpoints: { bookings: "https://hooks.example/old?key=older-secret" } };
  const saysOld = (status: number) => ways["in JSON"]!("older-secret", status);

  it.each<[name: string, replies: readonly Reply[], requests: string]>([
    ["the first GET is 403", [says(403)], "GET"],
    ["the first GET repeats the secret alone", [ways["in JSON"]!(secrets.at(-1)!, 403)], "GET"],
    ["POST is 409, and the GET 403", [none, says(409), says(403)], "GET,POST,GET"],
    ["POST is 400, and the GET no JSON", [none, says(400), ways["in a page"]!(url, 200)], "GET,POST,GET"],
    [
      "the read-back is 422, and the GET 422",
      [none, { status: 204 }, says(422), says(422)],
      "GET,POST,GET,GET",
    ],
    ["PUT is 404, and the POST 403", [{ json: old }, says(404), says(403)], "GET,PUT,POST"],
    ["PUT repeats the old secret alone", [{ json: old }, saysOld(403)], "GET,PUT"],
    [
      "the read-back repeats the old secret alone",
      [{ json: old }, { status: 204 }, saysOld(500)],
      "GET,PUT,GET",
    ],
    [
      "the platform keeps the old one",
      [{ json: old }, { status: 204 }, { json: { ...old, at: url } }],
      "GET,PUT,GET,GET",
    ],
  ])("ensure, if %s", async (_, replies, requests) => {
    const shown = await shownBy(replies, (client) =>
      client.webhookConfig.ensure({ endpoints: { bookings: url } }),
    );
    expect(shown.requests).toBe(requests);
    isHidden(shown.text);
    expect(shown.text).not.toContain("older-secret");
  });
});

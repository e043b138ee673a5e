import { expect, test } from "vitest";
import { maskedUrl } from "../../src/client/urls.ts";
import { cli, platform, serve } from "./support.ts";

const url = "https://example.com/hooks?key=s3cret";
const other = "https://example.com/other?key=0ther";
const shown = "https://example.com/hooks?key=***";
const all = (base: string) =>
  Object.fromEntries(["bookings", "listings", "messages"].map((topic) => [topic, `${base}&topic=${topic}`]));

/** What `config` finds: the environment, stdin, and whether stdin is a terminal. */
interface Given {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  readonly typing?: boolean;
}
/** What a command prints, how it ends, and the endpoints afterwards; `null`: no configuration. */
interface Then {
  readonly code?: number;
  readonly out?: string | RegExp;
  readonly err?: string | RegExp;
  readonly endpoints?: Readonly<Record<string, string>> | null;
  readonly isActive?: boolean;
}
type Step = readonly [line: string, then: Then, given?: Given];

const ensured = (action: string) => new RegExp(`^action\t${action}\n`);
const scripts: Readonly<Record<string, readonly Step[]>> = {
  "get prints the configuration with masked secrets, or ends with 4 if there is none": [
    ["get", { code: 4, err: "stayhook config ensure" }],
    [`set --bookings ${url}`, { endpoints: { bookings: url } }],
    ["get", { out: `isActive\ttrue\nbookings\t${shown}\n` }],
    ["get --json", { out: JSON.stringify({ isActive: true, endpoints: { bookings: shown } }, null, 2) }],
    ["get --json --show-secrets", { out: `"bookings": "${url}"` }],
  ],
  "set creates or replaces the whole configuration": [
    [
      `set --bookings ${url} --listings ${url}`,
      { endpoints: { bookings: url, listings: url }, isActive: true },
    ],
    [`set --listings ${other} --inactive`, { endpoints: { listings: other }, isActive: false }],
    ["set", { code: 2 }],
    ["set --bookings http://example.com/?key=s3cret", { code: 2, err: "endpoints.bookings" }],
    ["get", { out: "isActive\tfalse\n" }],
  ],
  "ensure writes only if something differs; an empty URL removes a topic": [
    [`ensure --bookings ${url}`, { out: ensured("created") }],
    [`ensure --bookings ${url}`, { out: ensured("unchanged") }],
    [`ensure --listings ${url}`, { out: ensured("updated"), endpoints: { bookings: url, listings: url } }],
    ["ensure --bookings=", { out: ensured("updated"), endpoints: { listings: url } }],
    [`ensure --listings ${url} --inactive`, { out: ensured("updated"), isActive: false }],
  ],
  "on, off and delete": [
    ["on", { code: 4 }],
    ["delete --yes", { code: 4 }],
    [`set --bookings ${url}`, {}],
    ["off --yes", { out: "isActive\tfalse", isActive: false }],
    ["on", { out: "isActive\ttrue", isActive: true }],
    ["off", { code: 1, err: /\? \[y\/N\] /, isActive: true }, { typing: true, input: "n\n" }],
    ["off", { code: 1, err: "Nothing was changed.", isActive: true }, { typing: true, input: "" }],
    ["off", { isActive: false }, { typing: true, input: "yes\n" }],
    ["delete", { code: 1, err: /\? \[y\/N\] /, isActive: false }, { typing: true, input: "yess\n" }],
    [
      "delete --json",
      { out: '{\n  "deleted": true\n}\n', endpoints: null },
      { typing: true, input: " Y \n" },
    ],
  ],
  "endpoints come from the environment, where an empty variable counts as unset": [
    [
      "ensure",
      { err: /^$/, endpoints: { bookings: url, messages: other } },
      { env: { STAYHOOK_ENDPOINT_BOOKINGS: url, STAYHOOK_ENDPOINT_MESSAGES: other } },
    ],
    [
      "ensure",
      { endpoints: { bookings: url, listings: url, messages: other } },
      { env: { STAYHOOK_ENDPOINT_BOOKINGS: "", STAYHOOK_ENDPOINT: "", STAYHOOK_ENDPOINT_LISTINGS: url } },
    ],
    ["ensure", { code: 2, err: "at least one of --bookings" }, { env: { STAYHOOK_ENDPOINT: "" } }],
    ["set", { err: /^$/, endpoints: { listings: url } }, { env: { STAYHOOK_ENDPOINT_LISTINGS: url } }],
  ],
  "endpoints come from stdin, one line for each option or one line for all": [
    [
      "set --listings - --bookings -",
      { err: /^$/, endpoints: { bookings: url, listings: other } },
      { input: `${url}\n${other}\n` },
    ],
    ["set --listings - --bookings -", { endpoints: { bookings: other, listings: other } }, { input: other }],
    ["set --bookings -", { code: 2 }, { input: "\n" }],
  ],
  "options override the environment, and a query in an endpoint causes a warning": [
    [
      `set --bookings ${url}`,
      {
        endpoints: { bookings: url },
        err: "can read the query of the URL in --bookings. Give the URL on stdin (--bookings -) or in STAYHOOK_ENDPOINT_BOOKINGS",
      },
      { env: { STAYHOOK_ENDPOINT_LISTINGS: other } },
    ],
    ["set --bookings https://example.com/hooks", { err: /^$/ }],
  ],
  "one URL is for all topics with --to or STAYHOOK_ENDPOINT; endpoints of topics win over the variable": [
    ["ensure --to -", { err: /^$/, endpoints: all(url) }, { input: `${url}\n` }],
    ["ensure", { err: /^$/, endpoints: all(other) }, { env: { STAYHOOK_ENDPOINT: other } }],
    [
      "ensure",
      { endpoints: { ...all(other), bookings: url } },
      { env: { STAYHOOK_ENDPOINT: other, STAYHOOK_ENDPOINT_BOOKINGS: url } },
    ],
    ["ensure --to -", { code: 2 }, { input: "" }],
  ],
};

test.each(Object.entries(scripts))("config %s", async (_, steps) => {
  const { sandbox, env } = await platform();
  for (const [line, then, given] of steps) {
    const ended = await cli(`config ${line}`, { ...given, env: { ...env, ...given?.env } });
    expect(ended.code, `${line}: ${ended.stderr}`).toBe(then.code ?? 0);
    if (then.code !== undefined) expect(ended.stdout, line).toBe("");
    for (const [text, expected = ""] of [
      [ended.stdout, then.out],
      [ended.stderr, then.err],
    ] as const)
      if (typeof expected === "string") expect(text, line).toContain(expected);
      else expect(text, line).toMatch(expected);
    if (!line.includes("--show-secrets"))
      expect(ended.stdout + ended.stderr, line).not.toMatch(/s3cret|0ther/);
    const { webhookConfig } = sandbox;
    if (then.endpoints !== undefined) expect(webhookConfig?.endpoints ?? null, line).toEqual(then.endpoints);
    if (then.isActive !== undefined) expect(webhookConfig?.isActive, line).toBe(then.isActive);
  }
});

test("set replaces a configuration that another machine created meanwhile", async () => {
  const { sandbox, env } = await platform();
  await cli(`config set --bookings ${other}`, { env });
  sandbox.faults.set([{ status: 404, route: "GET /v2/webhooks/config", times: 1 }]);
  expect(await cli(`config set --bookings ${url}`, { env })).toMatchObject({ code: 0 });
  expect(sandbox.webhookConfig).toEqual({ isActive: true, endpoints: { bookings: url } });
});

test("set fails if the platform keeps nothing, and on reads what the platform's empty answer lacks", async () => {
  let kept = "";
  const baseUrl = await serve(({ method }, response) => {
    if (method === "GET" && kept !== "")
      return response.setHeader("content-type", "application/json").end(kept);
    return response.writeHead(method === "GET" ? 404 : 204).end();
  });
  const env = { STAYHOOK_ACCESS_TOKEN: "t", STAYHOOK_BASE_URL: baseUrl };
  const { code, stderr } = await cli(`config set --bookings ${url}`, { env });
  expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining("does not have it") });
  kept = JSON.stringify({ isActive: true, endpoints: { bookings: url } });
  const stdout = `isActive\ttrue\nbookings\t${shown}\n`;
  expect(await cli("config on", { env })).toEqual({ code: 0, stdout, stderr: "" });
});

test.each([
  ["https://example.com/hooks?key=s3cret&topic=bookings", "https://example.com/hooks?key=***&topic=bookings"],
  ["https://example.com/hooks?topic=s3cret", "https://example.com/hooks?topic=***"],
  ["https://example.com/hooks?key=bookings", "https://example.com/hooks?key=***"],
  ["https://me:s3cret@example.com:8443/", "https://me:***@example.com:8443/"],
  ["https://example.com/hooks/0123456789abcdef", "https://example.com/hooks/***"],
  ["https://example.com/hooks#s3cret", "https://example.com/hooks"],
  ["https://example.com/hooks", "https://example.com/hooks"],
])("%s is masked as %s", (given, shown) => {
  expect(maskedUrl(given)).toBe(shown);
});

import type { RequestListener } from "node:http";
import { answerWith } from "../adapters/exchange.ts";
import { fetchHandler } from "../adapters/handlers.ts";
import { createSite, type Site, type View, type Visit } from "../console/site.ts";
import { StayhookError } from "../errors.ts";
import type { Log } from "../logger.ts";
import { eventView, type Notice, type PageSource, platformView } from "./page-view.ts";
import { throwInvalid } from "./sandbox-records.ts";
import { type Target, targetOf, verbs } from "./verbs.ts";

/** Makes the sandbox's web page: records, deliveries and faults, with buttons that change them. */
export function createPage(
  source: PageSource,
  { needsToken, log }: { readonly needsToken: boolean; readonly log: Log },
): RequestListener {
  const site: Site = {
    name: "Stayhook sandbox",
    every: 300,
    view: async (visit) => viewOf(source, visit),
    act: async (form, visit) => {
      try {
        return viewOf(source, visit, { tone: "good", text: await act(chosen(source, visit), form) });
      } catch (error) {
        if (!(error instanceof StayhookError)) throw error;
        return { ...viewOf(source, visit, { tone: "bad", text: error.message }), status: 400 };
      }
    },
  };
  const { fetch } = createSite(site, { authorize: () => true, log });
  const guarded = fetchHandler(async (request) =>
    needsToken && !source.tokens.some((token) => hasToken(request, token)) ? unauthorized() : fetch(request),
  );
  return (request, response) => void answerWith(guarded, { request, response });
}

/** Returns the account that the URL names, or the first one. */
function chosen({ sandbox }: PageSource, { query }: Visit): Target {
  const id = query.get("account") ?? undefined;
  return targetOf(sandbox, id !== undefined && sandbox.accounts.includes(id) ? id : undefined);
}

function viewOf(source: PageSource, visit: Visit, notice?: Notice): View {
  const { account } = chosen(source, visit);
  const eventId = visit.query.get("event");
  return eventId === null
    ? platformView(source, account, visit, notice)
    : eventView(account, eventId, visit, notice);
}

/** Accepts the token as a bearer token, or as the password of Basic authentication, which browsers send. */
function hasToken(request: Request, token: string): boolean {
  const [, scheme = "", value = ""] = /^(\S+) +(\S+)$/.exec(request.headers.get("authorization") ?? "") ?? [];
  if (scheme.toLowerCase() === "bearer") return value === token;
  const password = Buffer.from(value, "base64")
    .toString("latin1")
    .replace(/^[^:]*:/, "");
  return scheme.toLowerCase() === "basic" && password === token;
}

const unauthorized = (): Response =>
  new Response("Give the sandbox's access token as the password, or as a bearer token.\n", {
    status: 401,
    headers: {
      "www-authenticate": 'Basic realm="Stayhook sandbox"',
      "content-type": "text/plain; charset=utf-8",
    },
  });

/** Does what the pressed button says. Returns the text to show. */
async function act(target: Target, form: URLSearchParams): Promise<string> {
  const { do: name = "", csrf: _, ...given } = Object.fromEntries(form);
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined;
  if (!verb) throwInvalid("the page has no such button. Load the page again", "do");
  const fields = Object.entries(given).map(([field, value]) => [field, value.trim()]);
  return (await verb.run(target, new URLSearchParams(fields.filter(([, value]) => value !== "")))).text;
}

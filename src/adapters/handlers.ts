// Tells a webhook handler from a console, because the adapters take both.

import { checkAccount } from "../account.ts";
import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";
import { internalsOf } from "../webhooks/internals.ts";
import { problemWithTopic, type ReceiveRequest } from "../webhooks/receiving/request.ts";

/** A handler for web requests: the console that `createConsole` makes. */
export type FetchHandler = {
  /** Takes a web `Request`, and returns the answer to send. */
  readonly fetch: (request: Request) => Promise<Response>;
};

// `require` and `import` load separate copies of the package. `Symbol.for` gives both copies the same symbol.
const PAGES = Symbol.for("stayhook.pages");

/** Makes a handler with the mark `PAGES`. A webhook handler also has a `fetch` function, but not the mark. */
export function fetchHandler(fetch: FetchHandler["fetch"]): FetchHandler {
  return Object.defineProperty({ fetch }, PAGES, { value: true });
}

export function isFetchHandler(handler: unknown): handler is FetchHandler {
  return typeof handler === "object" && handler !== null && PAGES in handler;
}

/**
 * Checks the arguments of an adapter.
 *
 * @param names - the names of the handler's functions that the adapter calls
 * @param alternative - what else the adapter accepts, for the error message
 * @throws InvalidArgumentError if `webhooks` lacks one of the functions in `names`, or an option is invalid
 */
export function assertHandler(
  webhooks: unknown,
  names: readonly string[],
  options?: unknown,
  alternative = "",
): void {
  const given = Object(webhooks) as Readonly<Record<string, unknown>>;
  if (!names.every((name) => typeof given[name] === "function"))
    throw new InvalidArgumentError({
      path: ["webhooks"],
      message: `must be a handler from createWebhookHandler${alternative}`,
    });
  checkNoUnknown(options, ["topic", "account"]);
  const { topic, account } = Object(options) as { readonly topic?: unknown; readonly account?: unknown };
  const message = problemWithTopic(topic);
  if (message !== undefined) throw new InvalidArgumentError({ path: ["topic"], message });
  if (account === undefined) return;
  if (typeof account !== "function") checkAccount(account);
  const internals = internalsOf(webhooks);
  if (internals && internals.accountFrom === undefined)
    throw new InvalidArgumentError({
      path: ["account"],
      message: "needs a handler with the option accountFrom",
    });
}

/** What an adapter's options say of a request. */
export interface Endpoint {
  readonly topic: string | undefined;
  readonly account: string | (() => Account) | undefined;
}

type Account = string | readonly string[] | undefined;

export function endpointOf<R>(
  options:
    | {
        readonly topic?: string | undefined;
        readonly account?: string | ((request: R) => Account) | undefined;
      }
    | undefined,
  request: R,
): Endpoint {
  const { topic, account } = options ?? {};
  return { topic, account: typeof account === "function" ? () => account(request) : account };
}

/** Adds the endpoint to a request. The handler asks for the account, so that it answers and logs what the user's function throws. */
export function withEndpoint<T extends object>(
  request: T,
  { topic, account }: Endpoint,
): T & Pick<ReceiveRequest, "topic" | "account"> {
  if (typeof account !== "function") return { ...request, topic, account };
  return Object.defineProperty({ ...request, topic }, "account", { enumerable: true, get: account });
}

import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../option-names.ts";

/** Pages that the adapters serve: the console that `createConsole` makes. */
export interface FetchHandler {
  /** Takes a web `Request`, and gives the answer to send. */
  fetch(request: Request): Promise<Response>;
}

// `require` loads another copy of the package than `import`. This symbol is the same in both.
const PAGES = Symbol.for("stayhook.pages");

/** Makes a handler that the adapters serve. They refuse other objects with a `fetch`, which are mistakes most of the time. */
export function fetchHandler(fetch: FetchHandler["fetch"]): FetchHandler {
  return Object.defineProperty({ fetch }, PAGES, { value: true });
}

export function isFetchHandler(handler: unknown): handler is FetchHandler {
  return typeof handler === "object" && handler !== null && PAGES in handler;
}

/**
 * Checks the arguments of an adapter.
 *
 * @param names - the functions of a handler that the adapter calls
 * @throws InvalidArgumentError where `webhooks` lacks one of them, or an option is misspelled
 */
export function assertHandler(webhooks: unknown, names: readonly string[], options?: unknown): void {
  const given = Object(webhooks) as Readonly<Record<string, unknown>>;
  if (!names.every((name) => typeof given[name] === "function"))
    throw new InvalidArgumentError({
      path: ["webhooks"],
      message: "must be a handler that createWebhookHandler has made, or a console of createConsole",
    });
  checkNoUnknown(options, ["topic"]);
}

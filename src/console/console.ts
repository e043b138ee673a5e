import { InvalidArgumentError, type Issue } from "../errors.ts";
import { unknownOptions } from "../options.ts";
import type { WebhookHandler } from "../webhooks/handler.ts";
import { internalsOf } from "../webhooks/internals.ts";
import { inboxOf } from "./inbox.ts";

/** Options of {@link createConsole}. */
export interface ConsoleOptions {
  /**
   * Decides who may see the console. It is called with each request, those of the page's own assets included. Anything
   * but `true`, or an error, refuses the request (403).
   */
  readonly authorize: (request: Request) => boolean | Promise<boolean>;
  /**
   * The path under which the console is mounted, such as `/ops/console`. All other paths are answered 404. Default: the
   * console answers every path that it is asked for, because its links have no path.
   */
  readonly basePath?: string | undefined;
  /** Shows no forms that change anything, and refuses changes (405). Default `false`. */
  readonly readOnly?: boolean | undefined;
}

/** The console that {@link createConsole} makes. */
export interface WebhookConsole {
  /** Answers a request for a page. Needs no `this`. Never rejects. */
  fetch(request: Request): Promise<Response>;
}

const NAMES: readonly (keyof ConsoleOptions)[] = ["authorize", "basePath", "readOnly"];

/**
 * Makes a console of a handler's events: pages that list events, show what happened to each, and replay, discard and
 * erase them. It works on the handler's store, and processes nothing itself.
 *
 * @throws InvalidArgumentError naming each argument that is wrong, and where `authorize` is missing
 * @example
 * ```ts
 * const inbox = createConsole(webhooks, { authorize: (request) => isSupport(request.headers.get("cookie")) });
 * app.use("/console", toNodeHandler(inbox));
 * ```
 */
export function createConsole(webhooks: WebhookHandler, options: ConsoleOptions): WebhookConsole {
  const issues: Issue[] = unknownOptions(options, NAMES);
  if (issues.some(({ path }) => path.length === 0)) throw new InvalidArgumentError(issues);
  const { authorize, basePath, readOnly } = options ?? {};
  const refuse = (name: string, message: string) => issues.push({ path: [name], message });
  const internals = internalsOf(webhooks);
  if (!internals) refuse("webhooks", "must be a handler that createWebhookHandler has made");
  else if (!internals.store) refuse("webhooks", "must have an EventStore: forwardTo keeps no events to show");
  if (typeof authorize !== "function")
    refuse("authorize", "must be a function that decides who may see the console");
  if (basePath !== undefined && !(typeof basePath === "string" && /^\/[^?#\s]*$/.test(basePath)))
    refuse("basePath", "must be a path that begins with a slash, such as /console");
  if (readOnly !== undefined && typeof readOnly !== "boolean") refuse("readOnly", "must be true or false");
  if (issues.length > 0 || !internals?.store) throw new InvalidArgumentError(issues);
  return inboxOf(
    { store: internals.store, health: () => webhooks.health() },
    { authorize, basePath: basePath?.replace(/\/+$/, ""), readOnly, log: internals.log },
  );
}

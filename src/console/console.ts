import * as z from "zod";
import { callable, check, optionsObject } from "../options.ts";
import type { WebhookHandler } from "../webhooks/handler.ts";
import { internalsOf, problemsWithHandler } from "../webhooks/internals.ts";
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

const schema = () =>
  optionsObject({
    authorize: callable<ConsoleOptions["authorize"]>(
      "must be a function that decides who may see the console",
    ),
    basePath: z
      .string(basePathError)
      .regex(/^\/[^?#\s]*$/, basePathError)
      .optional(),
    readOnly: z.boolean({ error: "must be true or false" }).optional(),
  });
const basePathError = { error: "must be a path that begins with a slash, such as /console" };

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
  const before = problemsWithHandler(webhooks, ": forwardTo keeps no events to show");
  const { authorize, basePath, readOnly } = check(schema, options ?? {}, { before });
  const { store, log } = internalsOf(webhooks)!;
  return inboxOf(
    { store: store!, health: () => webhooks.health() },
    { authorize, basePath: basePath?.replace(/\/+$/, ""), readOnly, log },
  );
}

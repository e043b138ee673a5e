import * as z from "zod";
import { callable, check, optionsObject } from "../options.ts";
import type { WebhookHandler } from "../webhooks/handler.ts";
import { internalsOf, problemsWithHandler } from "../webhooks/internals.ts";
import type { OperatedObservation } from "../webhooks/observability.ts";
import { inboxOf } from "./inbox.ts";
import { logOperation } from "./operations.ts";

/** Options of {@link createConsole}. */
export interface ConsoleOptions {
  /**
   * Decides who may see the console. The console calls this function for every request, even for its stylesheet. If
   * the result is neither `true` nor `{ user }`, or if the function throws, the console answers 403. The log and the
   * observations `operated` name the `user` of each change.
   */
  readonly authorize: (request: Request) => Authorized | Promise<Authorized>;
  /**
   * The path of the console, such as `/ops/console`. The console also answers at `/`, because routers and proxies may
   * remove the path. At other paths, the console answers 404. Default: the console answers at any path.
   */
  readonly basePath?: string | undefined;
  /** Hides the buttons that change or erase events, and answers 405 to POST requests. Default `false`. */
  readonly readOnly?: boolean | undefined;
}

/** What `authorize` returns: whether the request is allowed, or who has sent it. */
type Authorized =
  | boolean
  | {
      /** The name, address or id of the person, which the log shows. It must not be empty. */
      readonly user: string;
    };

/** The console that {@link createConsole} makes. */
export interface WebhookConsole {
  /** Answers a request for a page. Needs no `this`. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>;
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
 * Makes a console for a handler's events. The pages list events and show their history. Users can replay, discard and
 * erase events. The console uses the handler's store, and does not process events.
 *
 * @throws InvalidArgumentError naming each argument that is wrong or missing
 * @example
 * ```ts
 * const inbox = createConsole(webhooks, { authorize: (request) => isSupport(request.headers.get("cookie")) });
 * app.use("/console", toNodeHandler(inbox));
 * ```
 */
export function createConsole(webhooks: WebhookHandler, options: ConsoleOptions): WebhookConsole {
  const before = problemsWithHandler(
    webhooks,
    ", because forwardTo stores no events, which the console shows",
  );
  const { authorize, basePath, readOnly } = check(schema, options ?? {}, { before });
  const { store, log, observe } = internalsOf(webhooks)!;
  const operated = (operation: OperatedObservation) => {
    logOperation(operation, log);
    observe(operation);
  };
  return inboxOf(
    { store: store!, health: () => webhooks.health(), operated },
    { authorize, basePath: basePath?.replace(/\/+$/, ""), readOnly, log },
  );
}

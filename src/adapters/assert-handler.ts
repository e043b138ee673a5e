import { InvalidArgumentError } from "../errors.ts";
import { checkNoUnknown } from "../options.ts";

/**
 * Checks the arguments of an adapter.
 *
 * @param names - the functions of a handler that the adapter calls
 * @throws InvalidArgumentError where `webhooks` lacks one of them, or an option is misspelt
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

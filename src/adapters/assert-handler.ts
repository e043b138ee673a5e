import { InvalidArgumentError } from "../errors.ts";

/** @throws InvalidArgumentError where `webhooks` lacks one of these functions, and so is no handler */
export function assertHandler(webhooks: unknown, names: readonly string[]): void {
  const given = Object(webhooks) as Readonly<Record<string, unknown>>;
  if (names.every((name) => typeof given[name] === "function")) return;
  throw new InvalidArgumentError({
    path: ["webhooks"],
    message: "must be what createWebhookHandler has made",
  });
}

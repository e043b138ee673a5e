// The settings, from the environment. In development, missing secrets are made and printed.
import { randomBytes } from "node:crypto";

const { env } = process;

export const baseUrl = env.STAYHOOK_BASE_URL ?? "";
/** In a container, set HOST to 0.0.0.0 or `::`, because nothing outside reaches its loopback. */
export const host = env.HOST ?? "127.0.0.1";
export const port = Number(env.PORT ?? "3000");
/** The URL of the route for notifications, as the platform reaches it. */
export const hooksUrl = env.PUBLIC_URL ?? `http://127.0.0.1:${port}/hooks`;
export const databaseUrl = env.DATABASE_URL;
export const eventsDb = env.EVENTS_DB ?? "events.db";
export const reconcileEvery = env.RECONCILE_EVERY ?? "24h";
/** The zone of the listings, if the platform sends times in place of dates. */
export const timeZone = env.TIME_ZONE;

/** The key of each account's webhook URL is made from this secret. */
export const webhookSecret = secret("WEBHOOK_SECRET");
/** Opens the routes below /accounts, and the console. */
export const adminSecret = secret("ADMIN_SECRET");
/** Encrypts the tokens in the table. */
export const accountsKey = Buffer.from(secret("ACCOUNTS_KEY"), "hex");
if (accountsKey.length !== 32)
  throw new Error("ACCOUNTS_KEY must be 32 bytes in hex: the output of openssl rand -hex 32.");

function secret(name: string): string {
  const given = env[name];
  if (given) return given;
  if (env.NODE_ENV === "production")
    throw new Error(`Set ${name} to a secret, such as the output of openssl rand -hex 32.`);
  const made = randomBytes(32).toString("hex");
  console.log(`${name}=${made} # made for this run. Set it, so that the next start has it, too.`);
  return made;
}

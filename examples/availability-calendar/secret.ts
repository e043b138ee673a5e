import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { DatabaseSync } from "node:sqlite";

/** Returns the secret that the database keeps. The first call makes it. */
export function keptSecret(db: DatabaseSync): string {
  db.exec("CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, secret TEXT NOT NULL) STRICT");
  db.prepare("INSERT OR IGNORE INTO secrets VALUES ('calendars', ?)").run(
    randomBytes(24).toString("base64url"),
  );
  return db.prepare("SELECT secret FROM secrets WHERE name = 'calendars'").get()?.secret as string;
}

/** Returns the token for one listing's feed. */
export function tokenOf(secret: string, listingId: string): string {
  return createHmac("sha256", secret).update(`calendar of ${listingId}`).digest("base64url");
}

/** Compares in constant time. */
export function isSame(given: string, secret: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(secret));
}

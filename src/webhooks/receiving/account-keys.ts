// The secrets that `sharedSecret` accepts from an account.

import { InvalidArgumentError, StayhookError } from "../../errors.ts";
import { encodeUtf8 } from "../../utf8.ts";

/** Returns the accepted secrets: at once if possible, because a request that is checked at once is read at less cost. */
export type SecretsOf = (account: string | undefined) => readonly string[] | Promise<readonly string[]>;

/** The secrets that a user's function gives for an account. `undefined` refuses the account. */
export type AskedSecrets = string | readonly (string | undefined)[] | undefined;

/** Derives a key for each account: HMAC-SHA256 of the account under the secret, in hexadecimal digits. */
export function derivedKeys(secrets: readonly string[]): SecretsOf {
  // Import the secrets at the first request: Workers allow no Web Crypto while the module starts.
  let imported: Promise<readonly CryptoKey[]> | undefined;
  return async (account) => {
    if (account === undefined) return [];
    imported ??= Promise.all(secrets.map(importKey));
    const name = encodeUtf8(account);
    return Promise.all((await imported).map(async (key) => hex(await crypto.subtle.sign("HMAC", key, name))));
  };
}

function importKey(secret: string): Promise<CryptoKey> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  return crypto.subtle.importKey("raw", encodeUtf8(secret), algorithm, false, ["sign"]);
}

function hex(bytes: ArrayBuffer): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Asks the user's function. Its failure is no refusal: the platform must send the notification again. */
export function askedSecrets(ask: (request: { readonly account: string }) => unknown): SecretsOf {
  const failed = (cause: unknown): never => {
    throw new SecretsUnavailableError("The `secret` function of sharedSecret failed; see error.cause.", {
      cause,
    });
  };
  const asking = async (pending: PromiseLike<unknown>) => {
    try {
      return checked(await pending);
    } catch (error) {
      return failed(error);
    }
  };
  return (account) => {
    if (account === undefined) return [];
    try {
      const asked = ask({ account });
      return isThenable(asked) ? asking(asked) : checked(asked);
    } catch (error) {
      return failed(error);
    }
  };
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (Object(value) as { then?: unknown }).then === "function";
}

/** An empty secret would accept a request whose parameter is empty. */
function checked(asked: unknown): readonly string[] {
  const all: readonly unknown[] = Array.isArray(asked) ? asked : [asked];
  const secrets: readonly unknown[] = all.filter((secret) => secret !== undefined && secret !== null);
  for (const secret of secrets)
    if (typeof secret !== "string" || secret.trim() === "" || secret !== secret.trim())
      throw new InvalidArgumentError({
        path: ["secret"],
        message: "must give texts that are not empty and have no white space at their beginning or end",
      });
  return secrets as string[];
}

// `import` and `require` load separate copies of the package. `Symbol.for` gives the same symbol to each copy.
const UNAVAILABLE = Symbol.for("stayhook.secretsUnavailable");

class SecretsUnavailableError extends StayhookError {
  readonly [UNAVAILABLE] = true;
}

/** Whether a `verify` could not know the secrets. */
export function isUnavailable(thrown: unknown): thrown is Error {
  return thrown instanceof Error && UNAVAILABLE in thrown;
}

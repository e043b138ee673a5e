// Asks the user which accounts there are.

import { ACCOUNT_RULE, isAccount } from "../account.ts";
import { InvalidArgumentError } from "../errors.ts";
import type { Account, Settings } from "./options.ts";

/** The accounts that have passes, each once. */
export interface Listed {
  readonly ids: readonly Account[];
  /** How many ids are not valid. */
  readonly invalid: number;
}

/** Calls the option `accounts`, and remembers its answer. Without the option, the list has the account `undefined`. */
export class AccountList {
  readonly #settings: Settings;
  #last: { readonly listed: Listed; readonly at: number } | undefined;
  #listing: Promise<Listed> | undefined;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /**
   * @param maxAge - how old a remembered answer may be, ms
   * @throws the error of the user's function
   */
  async get(maxAge: number): Promise<Listed> {
    const { accounts } = this.#settings;
    if (!accounts) return { ids: [undefined], invalid: 0 };
    const last = this.#last;
    if (last && performance.now() - last.at <= maxAge) return last.listed;
    this.#listing ??= this.#list(accounts).finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  async #list(accounts: NonNullable<Settings["accounts"]>): Promise<Listed> {
    // The answer is as old as the question.
    const at = performance.now();
    const given: unknown = await accounts();
    if (!isIterable(given))
      throw new InvalidArgumentError({
        path: ["accounts"],
        message: "must give an array or another iterable of ids",
      });
    const ids = new Set<string>();
    const invalid = new Set<unknown>();
    for await (const id of given) {
      if (isAccount(id)) ids.add(id);
      else invalid.add(id);
    }
    for (const id of invalid) this.#tellInvalid(id);
    const listed = { ids: [...ids], invalid: invalid.size };
    this.#last = { listed, at };
    return listed;
  }

  /** One wrong id must not keep the other accounts from their passes. */
  #tellInvalid(id: unknown): void {
    const { log, observe } = this.#settings;
    const shown = typeof id === "string" ? JSON.stringify(id) : `a value of type ${typeof id}`;
    const message = `gave ${shown}, which is not the id of an account: ${ACCOUNT_RULE}`;
    const error = new InvalidArgumentError({ path: ["accounts"], message });
    log.limited("accounts", "error", "the reconciler skipped an account", { error });
    observe({ kind: "error", error });
  }
}

/** A text is iterable, too, but its letters are no accounts. */
function isIterable(value: unknown): value is Iterable<unknown> | AsyncIterable<unknown> {
  if (typeof value !== "object" || value === null) return false;
  return Symbol.iterator in value || Symbol.asyncIterator in value;
}

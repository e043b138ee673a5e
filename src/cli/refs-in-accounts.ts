// Finds the records that a ref without an account means in a store with accounts.

import { inAccount, splitKey } from "../account.ts";
import { inEachCase, knownOf } from "../console/find-refs.ts";
import { eachEvent } from "../stores/each-event.ts";
import type { EventFilter } from "../stores/event-filter.ts";
import type { EventStore } from "../stores/event-store.ts";
import { UsageError } from "./command.ts";

type Store = EventStore<unknown>;

/** Returns the refs of the record in all accounts, also in none. Empty if no account has it. */
export async function refsInAccounts(store: Store, ref: string): Promise<readonly string[]> {
  const refs = [ref, ...[...(await accountsIn(store))].map((account) => inAccount(account, ref))];
  return knownOf(store, refs.flatMap(inEachCase));
}

/**
 * Returns the ref of a record to change, with its code in the case in which the store knows the record.
 *
 * @param option - what stands before the ref on the command line
 * @throws UsageError if only accounts have the record
 */
export async function refIn(store: Store, ref: string, option = ""): Promise<string> {
  const [known] = await knownOf(store, inEachCase(ref));
  const isElsewhere = known === undefined && splitKey(ref).account === undefined;
  const [first] = isElsewhere ? await refsInAccounts(store, ref) : [];
  if (first !== undefined)
    throw new UsageError(
      `${option}${ref} names no account. Give the account, too, such as ${option}${first}.`,
    );
  return known ?? ref;
}

/** The filter for a change, with the ref as {@link refIn} returns it. @throws UsageError */
export async function filterIn(store: Store, filter: EventFilter): Promise<EventFilter> {
  const { ref } = filter;
  return ref === undefined ? filter : { ...filter, ref: await refIn(store, ref, "--ref ") };
}

/** No ref of an account or of a kind is behind its name with this character. */
const LAST = "\u{10ffff}";
/** The states of events whose record the store may not know. An event becomes done with the snapshot of its record. */
const unread = ["pending", "processing", "retrying", "parked"] as const;

async function accountsIn(store: Store): Promise<ReadonlySet<string>> {
  const accounts = new Set<string>();
  const note = (ref: string | null) => {
    const { account } = splitKey(ref ?? "");
    if (account !== undefined) accounts.add(account);
    return account;
  };
  let ref = await firstRef(store);
  while (ref !== undefined) {
    const account = note(ref);
    ref = await firstRef(
      store,
      account === undefined ? `${ref.split(":")[0]}:${LAST}` : `${account}/${LAST}`,
    );
  }
  for (const state of unread) for await (const { ref } of eachEvent(store, { state })) note(ref);
  return accounts;
}

/** The first record with a snapshot, or the first behind `after`. */
async function firstRef(store: Store, after?: string): Promise<string | undefined> {
  for await (const { ref } of store.snapshots({ after })) return ref;
  return undefined;
}

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { StayhookError } from "../errors.ts";
import type { StateKeeper } from "../sandbox/create-sandbox.ts";
import type { SandboxState } from "../sandbox/platform.ts";

const stateSchema = z.object({
  bookings: z.array(
    z.looseObject({
      bookingCode: z.string(),
      status: z.string(),
      listingId: z.number(),
      checkIn: z.string(),
      checkOut: z.string(),
    }),
  ),
  listings: z.array(z.looseObject({ listingId: z.number(), listingName: z.string(), status: z.string() })),
  accepted: z.array(z.number()),
  webhookConfig: z.object({ isActive: z.boolean(), endpoints: z.record(z.string(), z.string()) }).nullable(),
});

/** A file has the state of a sandbox without accounts, or the state of each account. */
const schema = z.union([z.object({ accounts: z.record(z.string(), stateSchema) }), stateSchema]);

/**
 * Keeps the state of a sandbox in a file, which is written after each change.
 *
 * @throws StayhookError if the file is not a state of a sandbox, or cannot be read
 */
export function fileKeeper(file: string): StateKeeper {
  const read = readState(file);
  const accounts: Record<string, SandboxState> = read && "accounts" in read ? { ...read.accounts } : {};
  return {
    given(account) {
      if (account !== undefined) return accounts[account];
      if (read && "accounts" in read)
        throw new StayhookError(`${file} holds the state of accounts. Name them with --accounts.`);
      return read;
    },
    save(account, state) {
      if (account !== undefined) accounts[account] = state;
      write(file, account === undefined ? state : { accounts });
    },
  };
}

function write(file: string, content: object): void {
  const text = `${JSON.stringify(content, null, 2)}\n`;
  try {
    // A file that is renamed is whole, even if the process ends meanwhile. The endpoints may have secrets.
    writeFileSync(`${file}.new`, text, { mode: 0o600 });
    renameSync(`${file}.new`, file);
  } catch (error) {
    throw new StayhookError(`${file} cannot be written: ${(error as Error).message}. Is --state right?`, {
      cause: error,
    });
  }
}

function readState(file: string): z.infer<typeof schema> | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new StayhookError(`${file} cannot be read: ${(error as Error).message}. Is --state right?`, {
      cause: error,
    });
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new StayhookError(
      `${file} does not hold the state of a sandbox. Give another file with --state, or delete this one.`,
      { cause: error },
    );
  }
}

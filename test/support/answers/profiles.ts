import * as z from "zod";
import { check, optionsObject } from "../../../src/sandbox/options.ts";
import { createRandom } from "../../../src/sandbox/random.ts";
import { copy } from "../../../src/sandbox/records.ts";

/** Every form of each thing that the platform's interface does not show. The first is the default. */
export const profileForms = {
  writes: ["config", "no-content", "empty", "object", "message", "text", "wrapped", "named"],
  writeStatus: ["usual", 200, 201, 202],
  noConfig: ["not-found", "no-content", "empty", "null", "object", "wrapped", "named"],
  records: ["bare", "data", "named"],
  lists: ["bare", "listings", "data", "items", "results", "nested"],
  paging: ["none", "last", "more"],
  fields: ["known", "more"],
  dates: ["date", "date-time", "seconds", "milliseconds", "null", "absent"],
  listingIds: ["number", "string"],
  statuses: ["listed", "unlisted"],
  errors: ["object", "message", "list", "problem", "text", "html", "empty"],
} as const;

type Forms = typeof profileForms;
type Form = Forms[keyof Forms][number];

/** The form that each aspect has in one answer. */
export type AnswerForms = { readonly [Aspect in keyof Forms]: Forms[Aspect][number] };

/**
 * How the sandbox's API answers, in each thing that the platform's interface leaves open. A subscriber should do
 * the same whatever the profile. Of a list of forms, each answer draws one, by the seed.
 */
export interface SandboxProfile {
  /**
   * What create, update, toggle and delete answer: the configuration, 204, an empty body, `{}`, `{ message }`,
   * plain text, `{ data: config }`, or `{ config }`. Default `"config"`, with 204 to a delete.
   */
  readonly writes?: OneOrMore<"writes">;
  /** The status of these, where it is not 204. Default `"usual"`: 201 to a create, else 200. */
  readonly writeStatus?: OneOrMore<"writeStatus">;
  /**
   * What is answered where there is no configuration to get: 404, 204, an empty body, `null`, `{}`,
   * `{ data: null }`, or `{ config: null }`. Default `"not-found"`.
   */
  readonly noConfig?: OneOrMore<"noConfig">;
  /** Whether a record or configuration stands alone, in `data`, or in `booking`, `listing` or `config`. Default `"bare"`. */
  readonly records?: OneOrMore<"records">;
  /** What the list of listings stands in: nothing, a property of that name, or `data.listings`. Default `"bare"`. */
  readonly lists?: OneOrMore<"lists">;
  /**
   * What a list says of pages: nothing, that this is the last one, or that there are more (which a client cannot
   * know how to get, and should warn of). Default `"none"`.
   */
  readonly paging?: OneOrMore<"paging">;
  /** Whether answers have further fields, such as a record within the record. Default `"known"`: no. */
  readonly fields?: OneOrMore<"fields">;
  /**
   * A booking's `checkIn` and `checkOut`: `YYYY-MM-DD`, with time and offset, seconds or ms since 1970, null, or
   * absent. Dates that were given in another format stay as they are. Default `"date"`.
   */
  readonly dates?: OneOrMore<"dates">;
  /** Whether a `listingId` comes as a number, or as its digits. Default `"number"`. */
  readonly listingIds?: OneOrMore<"listingIds">;
  /** Whether records have statuses that the platform's interface lists, or newer ones. Default `"listed"`. */
  readonly statuses?: OneOrMore<"statuses">;
  /**
   * An error's body: `{ error: { code, message } }`, `{ error: message }`, `{ errors: [] }`, problem+json, plain
   * text, HTML, or none. Default `"object"`.
   */
  readonly errors?: OneOrMore<"errors">;
}

type OneOrMore<Aspect extends keyof Forms> =
  | Forms[Aspect][number]
  | readonly [Forms[Aspect][number], ...Forms[Aspect][number][]]
  | undefined;

/**
 * Answer profiles that are ready to use, by name. Together they have every form of every aspect. They can be
 * composed: `profile: { ...sandboxProfiles.wrapped, dates: "seconds" }`.
 */
export const sandboxProfiles = {
  /** What the sandbox does unless told: bare records, `YYYY-MM-DD`, configurations shown. */
  default: {},
  /** As little as can be said: 204 wherever there is no record to show. */
  silent: { writes: "no-content", noConfig: "no-content", errors: "empty" },
  /** Success without a body. */
  empty: { writes: "empty", writeStatus: 200, noConfig: "empty", errors: "empty" },
  /** `{}` wherever there is nothing to show. */
  objects: { writes: "object", writeStatus: 202, noConfig: "object", errors: "list" },
  /** Writes are answered with a sentence, and errors too. */
  messages: { writes: "message", writeStatus: 200, noConfig: "null", errors: "message" },
  /** Plain text, and an HTML page for errors, as proxies send it. */
  text: { writes: "text", writeStatus: 201, errors: "html" },
  /** Everything in `data`. */
  wrapped: { writes: "wrapped", noConfig: "wrapped", records: "data", lists: "data", errors: "list" },
  /** Everything in a property that is called as what it is. */
  named: { writes: "named", noConfig: "named", records: "named", lists: "listings", errors: "problem" },
  /** The list in `items`, with a page that says it is the last. */
  items: { lists: "items", paging: "last", errors: "text" },
  /** The list in `results`, with a hint at further pages. */
  results: { lists: "results", paging: "more" },
  /** The list in `data.listings`, beside much else. */
  nested: { records: "data", lists: "nested", paging: "last", fields: "more" },
  /** A bare list whose headers tell of further pages. */
  paged: { paging: "more" },
  /** Further fields everywhere, some with names that other answers wrap their records in. */
  detailed: { fields: "more", dates: "date-time", listingIds: "string" },
  seconds: { dates: "seconds" },
  milliseconds: { dates: "milliseconds", listingIds: "string" },
  /** Bookings whose dates are null. */
  undated: { dates: "null" },
  /** Bookings without dates. */
  dateless: { dates: "absent" },
  /** Records in statuses that are newer than the interface: `NewerConfirmed` for `Confirmed`. */
  unlisted: { statuses: "unlisted" },
  /** Each answer in another form, drawn from the seed; what it says stays the same. */
  mixed: {
    ...profileForms,
    dates: ["date", "date-time", "seconds", "milliseconds"],
    statuses: "listed",
  },
} as const satisfies Readonly<Record<string, SandboxProfile>>;

/** The name of one of {@link sandboxProfiles}. */
export type SandboxProfileName = keyof typeof sandboxProfiles;

/** The answer profile of the sandbox, to be switched while it runs. */
export interface SandboxProfileControl {
  /** The one that answers are made by. */
  readonly current: SandboxProfile;
  /**
   * Answers by another profile from now on.
   *
   * @throws InvalidArgumentError where there is no profile of that name, or naming each aspect that is wrong
   */
  set(profile: SandboxProfileName | SandboxProfile): void;
}

const aspects = Object.keys(profileForms) as (keyof Forms)[];

const nameSchema = z.literal(Object.keys(sandboxProfiles), {
  error: `must be one of ${Object.keys(sandboxProfiles).join(", ")}, or an object`,
});

const formsSchema = optionsObject(
  Object.fromEntries(
    aspects.map((aspect) => {
      const one = z.literal(profileForms[aspect]);
      const error = `must be one of ${profileForms[aspect].join(", ")}, or a list of them`;
      return [aspect, z.union([one, z.array(one).min(1)], { error }).optional()];
    }),
  ),
);

/** What `profile` may be. */
export const profileSchema = z.unknown().superRefine((profile, context) => {
  const { error } = (typeof profile === "string" ? nameSchema : formsSchema).safeParse(profile);
  for (const { path, message } of error?.issues ?? []) context.addIssue({ code: "custom", path, message });
});

export interface ProfileControl extends SandboxProfileControl {
  /** The form of each aspect for the next answer. */
  draw(): AnswerForms;
}

/** @param initial - checked */
export function createProfile(seed: number, initial: SandboxProfileName | SandboxProfile): ProfileControl {
  let profile = named(initial);
  let random = createRandom(seed, "profile");
  const formOf = (aspect: keyof Forms): Form => {
    const form: Form | readonly [Form, ...Form[]] = profile[aspect] ?? profileForms[aspect][0];
    return typeof form === "object" ? random.pick(form) : form;
  };
  return {
    get current() {
      return copy(profile);
    },
    set(next) {
      check(profileSchema, next, ["profile"]);
      profile = named(next);
      random = createRandom(seed, "profile");
    },
    draw: () =>
      Object.fromEntries(aspects.map((aspect) => [aspect, formOf(aspect)])) as unknown as AnswerForms,
  };
}

function named(profile: SandboxProfileName | SandboxProfile): SandboxProfile {
  return copy(typeof profile === "string" ? sandboxProfiles[profile] : profile);
}

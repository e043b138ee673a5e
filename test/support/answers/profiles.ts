import { createRandom } from "../../../src/sandbox/random.ts";

/**
 * The forms that an answer of the platform may have, by aspect. The platform's documentation does not show them. The first
 * form of each aspect is the default.
 *
 * - `writes`: the answers to create, update, toggle and delete. By default delete is answered 204.
 * - `noConfig`: the answer to a read of the webhook configuration if none exists.
 * - `records`, `lists`: the property that holds a record or the list.
 * - `paging`: whether a list says that more pages follow.
 * - `fields`: whether records have undocumented fields, such as a nested record.
 */
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

export type AnswerForms = { readonly [Aspect in keyof Forms]: Forms[Aspect][number] };

/**
 * One or more forms for each aspect. Of several forms, each answer has a random one. Default: see `profileForms`.
 */
export type SandboxProfile = { readonly [Aspect in keyof Forms]?: OneOrMore<Aspect> };

type OneOrMore<Aspect extends keyof Forms> =
  | Forms[Aspect][number]
  | readonly [Forms[Aspect][number], ...Forms[Aspect][number][]]
  | undefined;

/** Named profiles. Each form occurs in at least one of them. */
export const sandboxProfiles = {
  default: {},
  silent: { writes: "no-content", noConfig: "no-content", errors: "empty" },
  empty: { writes: "empty", writeStatus: 200, noConfig: "empty", errors: "empty" },
  objects: { writes: "object", writeStatus: 202, noConfig: "object", errors: "list" },
  messages: { writes: "message", writeStatus: 200, noConfig: "null", errors: "message" },
  text: { writes: "text", writeStatus: 201, errors: "html" },
  wrapped: { writes: "wrapped", noConfig: "wrapped", records: "data", lists: "data", errors: "list" },
  named: { writes: "named", noConfig: "named", records: "named", lists: "listings", errors: "problem" },
  items: { lists: "items", paging: "last", errors: "text" },
  results: { lists: "results", paging: "more" },
  nested: { records: "data", lists: "nested", paging: "last", fields: "more" },
  paged: { paging: "more" },
  detailed: { fields: "more", dates: "date-time", listingIds: "string" },
  seconds: { dates: "seconds" },
  milliseconds: { dates: "milliseconds", listingIds: "string" },
  undated: { dates: "null" },
  dateless: { dates: "absent" },
  unlisted: { statuses: "unlisted" },
  /** Each answer has a random form with the same meaning. */
  mixed: {
    ...profileForms,
    dates: ["date", "date-time", "seconds", "milliseconds"],
    statuses: "listed",
  },
} as const satisfies Readonly<Record<string, SandboxProfile>>;

type ProfileName = keyof typeof sandboxProfiles;

const aspects = Object.keys(profileForms) as (keyof Forms)[];

/** The profile of a sandbox. It can change while the sandbox runs. */
export class Profile {
  readonly #seed: number;
  #profile: SandboxProfile = {};
  #random = createRandom(0, "profile");

  constructor(seed: number, initial: ProfileName | SandboxProfile) {
    this.#seed = seed;
    this.set(initial);
  }

  set(profile: ProfileName | SandboxProfile): void {
    this.#profile = typeof profile === "string" ? sandboxProfiles[profile] : profile;
    this.#random = createRandom(this.#seed, "profile");
  }

  /** Draws the form of each aspect for the next answer. */
  draw(): AnswerForms {
    const forms = aspects.map((aspect) => [aspect, this.#formOf(aspect)]);
    return Object.fromEntries(forms) as AnswerForms;
  }

  #formOf(aspect: keyof Forms): Form {
    const form: Form | readonly [Form, ...Form[]] = this.#profile[aspect] ?? profileForms[aspect][0];
    return typeof form === "object" ? this.#random.pick(form) : form;
  }
}

// What may happen to one booking, and what the apps of the guides and examples must have done at the end. Day 0 is the
// first day. The guest has booked house 7 from day 2 to day 8, at 7:00 on day 0, unless the row begins otherwise.

/** The fields of a booking that change. A house of 99 has no time zone. */
export interface Fields {
  readonly house?: number;
  /** Days as numbers, or a value of another form. */
  readonly checkIn?: number | string;
  readonly checkOut?: number | string;
  readonly status?: string;
}

/** What happens at a time, such as "5 14:00". */
export type Step = readonly [at: string, what: Fields | Happening];

/**
 * `again`: a notification without a change. `gone`, `refused`: the platform answers 404 or 403. `back`: it answers
 * again. `watch`: the host tells the app the code. `broken`: the next call of the app's services fails.
 */
export type Happening = "again" | "gone" | "refused" | "back" | "watch" | "broken";

/** What must have been done. The app of a recipe is compared with the columns that it has. */
export interface Row {
  readonly name: string;
  readonly zone?: string;
  /** The fields of the booking before the first step. */
  readonly booked?: Fields & { readonly at?: string; readonly untold?: boolean };
  readonly steps: readonly Step[];
  /** Which house is blocked from which day to which day in the end. */
  readonly nights: readonly string[];
  /** In which door the code was, and from which hour to which hour. */
  readonly door: readonly string[];
  /** Which house was cleaned on which day. From the hour of the arrival on, nobody knows whether the guest was there. */
  readonly cleaned: readonly string[];
  /** Which house a welcome of which day has named, where it is not each house whose door opened, on that day. */
  readonly welcomes?: readonly string[];
  /** Which house a mail of which day has named. */
  readonly mails: readonly string[];
}

/** What must have been done for a stay without a change. */
export const stays = { nights: ["7 2-8"], door: ["7 2 15h-8 11h"], cleaned: ["7 8"], mails: ["7 0"] };

export const rows: readonly Row[] = [
  { name: "booked", steps: [], ...stays },
  {
    name: "booked, and told again and again",
    steps: ["1 10:00", "5 14:00", "8 11:00", "9 14:00"].map((at) => [at, "again"]),
    ...stays,
  },
  {
    name: "booked today for tomorrow",
    booked: { at: "1 18:00", checkOut: 4 },
    steps: [["1 20:00", "again"]],
    nights: ["7 2-4"],
    door: ["7 2 15h-4 11h"],
    cleaned: ["7 4"],
    mails: ["7 1"],
  },
  {
    name: "booked today for today",
    booked: { at: "2 18:00", checkOut: 3 },
    steps: [],
    nights: ["7 2-3"],
    door: ["7 2 18h-3 11h"],
    cleaned: ["7 3"],
    mails: ["7 2"],
  },

  {
    name: "check-out today, told after the cleaning's hour",
    steps: [["5 14:00", { checkOut: 5 }]],
    ...stays,
    nights: ["7 2-5"],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
  },
  {
    name: "check-out today, told before the cleaning's hour",
    steps: [["5 09:30", { checkOut: 5 }]],
    ...stays,
    nights: ["7 2-5"],
    door: ["7 2 15h-5 11h"],
    cleaned: ["7 5"],
  },
  {
    name: "check-out today, told at the cleaning's hour",
    steps: [["5 11:00", { checkOut: 5 }]],
    ...stays,
    nights: ["7 2-5"],
    door: ["7 2 15h-5 11h"],
    cleaned: ["7 5"],
  },
  {
    name: "check-out today, told after the hour, and cancelled on the next day",
    steps: [
      ["5 14:00", { checkOut: 5 }],
      ["6 14:00", { status: "Cancelled" }],
    ],
    nights: [],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
    mails: ["7 0"],
  },
  {
    name: "check-out yesterday, told today",
    steps: [["6 14:00", { checkOut: 5 }]],
    ...stays,
    nights: ["7 2-5"],
    door: ["7 2 15h-6 14h"],
    cleaned: ["7 6"],
  },
  {
    name: "check-out corrected after the cleaning",
    steps: [["10 14:00", { checkOut: 7 }]],
    ...stays,
    nights: ["7 2-7"],
  },
  {
    name: "extended",
    steps: [["5 14:00", { checkOut: 10 }]],
    ...stays,
    nights: ["7 2-10"],
    door: ["7 2 15h-10 11h"],
    cleaned: ["7 10"],
  },
  {
    name: "extended on the day after the cleaning",
    steps: [["9 14:00", { checkOut: 10 }]],
    ...stays,
    nights: ["7 2-10"],
    door: ["7 2 15h-8 11h", "7 9 14h-10 11h"],
    cleaned: ["7 8", "7 10"],
    welcomes: ["7 2"],
  },
  {
    name: "the arrival is earlier than the mail's day",
    steps: [["0 08:00", { checkIn: 1 }]],
    ...stays,
    nights: ["7 1-8"],
    door: ["7 1 15h-8 11h"],
  },
  {
    name: "other days in mid-stay",
    steps: [["5 14:00", { checkIn: 12, checkOut: 14 }]],
    nights: ["7 12-14"],
    door: ["7 2 15h-5 14h", "7 12 15h-14 11h"],
    cleaned: ["7 5", "7 14"],
    mails: ["7 0", "7 10"],
  },

  {
    name: "cancelled before the mail",
    steps: [["0 08:00", { status: "Cancelled" }]],
    nights: [],
    door: [],
    cleaned: [],
    mails: [],
  },
  {
    name: "cancelled on the morning of the arrival",
    steps: [["2 09:30", { status: "Cancelled" }]],
    nights: [],
    door: [],
    cleaned: [],
    mails: ["7 0"],
  },
  {
    name: "cancelled at the hour of the arrival",
    steps: [["2 15:00", { status: "Cancelled" }]],
    nights: [],
    door: [],
    cleaned: ["7 2"],
    mails: ["7 0"],
  },
  {
    name: "cancelled in mid-stay",
    steps: [["5 14:00", { status: "Cancelled" }]],
    nights: [],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
    mails: ["7 0"],
  },
  {
    name: "cancelled at the hour of the cleaning",
    steps: [["8 11:00", { status: "Cancelled" }]],
    ...stays,
    nights: [],
  },
  {
    name: "cancelled on the day of the cleaning, after it",
    steps: [["8 14:00", { status: "Cancelled" }]],
    ...stays,
    nights: [],
  },
  {
    name: "cancelled four days after the cleaning",
    steps: [["12 14:00", { status: "Cancelled" }]],
    ...stays,
    nights: [],
  },
  {
    name: "cancelled before the arrival, and confirmed again",
    steps: [
      ["1 09:30", { status: "Cancelled" }],
      ["1 14:00", { status: "Confirmed" }],
    ],
    ...stays,
    mails: ["7 0"],
  },
  {
    name: "cancelled in mid-stay, and confirmed again on the next day",
    steps: [
      ["5 14:00", { status: "Cancelled" }],
      ["6 14:00", { status: "Confirmed" }],
    ],
    ...stays,
    door: ["7 2 15h-5 14h", "7 6 14h-8 11h"],
    cleaned: ["7 5", "7 8"],
    welcomes: ["7 2"],
  },

  {
    name: "moved before the mail",
    steps: [["0 08:00", { house: 9 }]],
    nights: ["9 2-8"],
    door: ["9 2 15h-8 11h"],
    cleaned: ["9 8"],
    mails: ["9 0"],
  },
  {
    name: "moved on the same days after the mail",
    steps: [["1 14:00", { house: 9 }]],
    nights: ["9 2-8"],
    door: ["9 2 15h-8 11h"],
    cleaned: ["9 8"],
    mails: ["7 0", "9 1"],
  },
  {
    name: "moved after the mail, there and back",
    steps: [
      ["1 12:00", { house: 9 }],
      ["1 14:00", { house: 7 }],
    ],
    ...stays,
    mails: ["7 0", "9 1", "7 1"],
  },
  {
    name: "moved with other days",
    steps: [["1 14:00", { house: 9, checkIn: 5, checkOut: 10 }]],
    nights: ["9 5-10"],
    door: ["9 5 15h-10 11h"],
    cleaned: ["9 10"],
    mails: ["7 0", "9 3"],
  },
  {
    name: "moved in mid-stay",
    steps: [["5 14:00", { house: 9 }]],
    nights: ["9 2-8"],
    door: ["7 2 15h-5 14h", "9 5 14h-8 11h"],
    cleaned: ["7 5", "9 8"],
    mails: ["7 0", "9 5"],
  },
  {
    name: "moved twice on one day in mid-stay",
    steps: [
      ["5 10:00", { house: 8 }],
      ["5 12:00", { house: 9 }],
    ],
    nights: ["9 2-8"],
    door: ["7 2 15h-5 10h", "8 5 10h-5 12h", "9 5 12h-8 11h"],
    cleaned: ["7 5", "8 5", "9 8"],
    mails: ["7 0", "8 5", "9 5"],
  },
  {
    name: "moved in mid-stay, and back on another day",
    steps: [
      ["4 14:00", { house: 9 }],
      ["6 14:00", { house: 7 }],
    ],
    ...stays,
    door: ["7 2 15h-4 14h", "9 4 14h-6 14h", "7 6 14h-8 11h"],
    cleaned: ["7 4", "9 6", "7 8"],
    mails: ["7 0", "9 4", "7 6"],
  },
  {
    name: "moved in mid-stay, and back on the same day",
    steps: [
      ["5 12:00", { house: 9 }],
      ["5 14:00", { house: 7 }],
    ],
    ...stays,
    door: ["7 2 15h-5 12h", "9 5 12h-5 14h", "7 5 14h-8 11h"],
    cleaned: ["7 5", "9 5", "7 8"],
    mails: ["7 0", "9 5", "7 5"],
  },
  {
    name: "moved in mid-stay, and cancelled after the cleaning",
    steps: [
      ["5 14:00", { house: 9 }],
      ["10 14:00", { status: "Cancelled" }],
    ],
    nights: [],
    door: ["7 2 15h-5 14h", "9 5 14h-8 11h"],
    cleaned: ["7 5", "9 8"],
    mails: ["7 0", "9 5"],
  },

  {
    name: "booked in a house without a zone, and moved out of it",
    booked: { house: 99 },
    steps: [["1 14:00", { house: 7 }]],
    ...stays,
    mails: ["7 1"],
  },
  {
    name: "moved before the arrival to a house without a zone",
    steps: [["1 14:00", { house: 99 }]],
    nights: ["99 2-8"],
    door: [],
    cleaned: [],
    mails: ["7 0"],
  },
  {
    name: "moved in mid-stay to a house without a zone",
    steps: [["5 14:00", { house: 99 }]],
    nights: ["99 2-8"],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
    mails: ["7 0"],
  },
  {
    name: "moved in mid-stay to a house without a zone, and out of it",
    steps: [
      ["5 14:00", { house: 99 }],
      ["6 14:00", { house: 9 }],
    ],
    nights: ["9 2-8"],
    door: ["7 2 15h-5 14h", "9 6 14h-8 11h"],
    cleaned: ["7 5", "9 8"],
    mails: ["7 0", "9 6"],
  },
  {
    name: "moved away, back, and cancelled on one day",
    steps: [
      ["5 10:00", { house: 9 }],
      ["5 12:00", { house: 7 }],
      ["5 18:00", { status: "Cancelled" }],
    ],
    nights: [],
    door: ["7 2 15h-5 10h", "9 5 10h-5 12h", "7 5 12h-5 18h"],
    cleaned: ["7 5", "9 5", "7 5"],
    mails: ["7 0", "9 5", "7 5"],
  },
  {
    name: "moved after the hour of the departure",
    steps: [["8 12:00", { house: 9 }]],
    ...stays,
    nights: ["9 2-8"],
  },
  {
    name: "moved in mid-stay to a house without a zone, and back",
    steps: [
      ["5 14:00", { house: 99 }],
      ["6 14:00", { house: 7 }],
    ],
    ...stays,
    door: ["7 2 15h-5 14h", "7 6 14h-8 11h"],
    cleaned: ["7 5", "7 8"],
    welcomes: ["7 2"],
  },
  {
    name: "back to a request before the arrival",
    steps: [["1 10:00", { status: "Request" }]],
    nights: [],
    door: [],
    cleaned: [],
    mails: ["7 0"],
  },
  {
    name: "back to a request in mid-stay",
    steps: [["5 14:00", { status: "Request" }]],
    nights: [],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
    mails: ["7 0"],
  },
  {
    name: "booked at 23:30 for tonight",
    booked: { at: "2 23:30", checkOut: 3 },
    steps: [],
    nights: ["7 2-3"],
    door: ["7 2 23h-3 11h"],
    cleaned: ["7 3"],
    mails: ["7 2"],
  },
];

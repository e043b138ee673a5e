// Bookings that vanish or are refused, odd dates and zones, and bookings from before.
import { type Row, stays } from "./rows.ts";

export const oddRows: readonly Row[] = [
  {
    name: "gone before the arrival",
    steps: [["1 14:00", "gone"]],
    nights: [],
    door: [],
    cleaned: [],
    mails: ["7 0"],
  },
  {
    name: "gone in mid-stay",
    steps: [["5 14:00", "gone"]],
    nights: [],
    door: ["7 2 15h-5 14h"],
    cleaned: ["7 5"],
    mails: ["7 0"],
  },
  {
    name: "gone in mid-stay, and back on the next day",
    steps: [
      ["5 14:00", "gone"],
      ["6 14:00", "back"],
    ],
    ...stays,
    door: ["7 2 15h-5 14h", "7 6 14h-8 11h"],
    cleaned: ["7 5", "7 8"],
    welcomes: ["7 2"],
  },
  {
    name: "gone after the cleaning",
    steps: [["10 14:00", "gone"]],
    ...stays,
    nights: [],
  },

  {
    name: "refused for good in mid-stay",
    booked: { checkOut: 14 },
    steps: [
      ["5 20:00", "refused"],
      ["8 21:00", "again"],
    ],
    nights: [],
    door: ["7 2 15h-8 21h"],
    cleaned: ["7 8"],
    mails: ["7 0"],
  },
  {
    name: "refused for good in mid-stay, and back",
    booked: { checkOut: 14 },
    steps: [
      ["5 20:00", "refused"],
      ["8 21:00", "again"],
      ["11 14:00", "back"],
    ],
    nights: ["7 2-14"],
    door: ["7 2 15h-8 21h", "7 11 14h-14 11h"],
    cleaned: ["7 8", "7 14"],
    mails: ["7 0"],
    welcomes: ["7 2"],
  },
  {
    name: "times in place of dates",
    booked: { checkIn: "2027-05-04T23:00:00Z", checkOut: "2027-05-10T23:00:00Z" }, // midnight in Lisbon
    steps: [["1 14:00", { checkOut: "2027-05-11T11:00:00+01:00" }]],
    ...stays,
  },
  {
    name: "a zone behind UTC",
    zone: "America/Los_Angeles",
    steps: [["5 20:00", { house: 9 }]],
    nights: ["9 2-8"],
    door: ["7 2 15h-5 20h", "9 5 20h-8 11h"],
    cleaned: ["7 5", "9 8"],
    mails: ["7 0", "9 5"],
  },
  {
    name: "moved in mid-stay, and a call fails once",
    steps: [
      ["5 13:59", "broken"],
      ["5 14:00", { house: 9 }],
    ],
    nights: ["9 2-8"],
    door: ["7 2 15h-5 14h", "9 5 14h-8 11h"],
    cleaned: ["7 5", "9 8"],
    mails: ["7 0", "9 5"],
  },

  {
    name: "a past stay, told to watch()",
    booked: { checkIn: -5, checkOut: -2, untold: true },
    steps: [
      ["1 14:00", "watch"],
      ["1 15:00", "again"],
    ],
    nights: ["7 -5--2"],
    door: [],
    cleaned: [],
    mails: [],
  },
  {
    name: "a past stay, told to watch(), and cancelled",
    booked: { checkIn: -5, checkOut: -2, untold: true },
    steps: [
      ["1 14:00", "watch"],
      ["1 15:00", { status: "Cancelled" }],
    ],
    nights: [],
    door: [],
    cleaned: [],
    mails: [],
  },
  {
    name: "a guest in the house, told to watch()",
    booked: { checkIn: -2, checkOut: 3, untold: true },
    steps: [["1 14:00", "watch"]],
    nights: ["7 -2-3"],
    door: ["7 1 14h-3 11h"],
    cleaned: ["7 3"],
    mails: ["7 1"],
  },
];

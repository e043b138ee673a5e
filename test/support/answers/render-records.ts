import type { AnswerForms } from "./profiles.ts";

type Properties = Readonly<Record<string, unknown>>;

/** Writes the fields of a record in the given forms. */
export const withForms = {
  booking(booking: Properties, forms: AnswerForms): Properties {
    const { checkIn, checkOut, ...rest } = booking;
    const dates = {
      checkIn: date(checkIn, "15:00:00+02:00", forms),
      checkOut: date(checkOut, "11:00:00+02:00", forms),
    };
    const further = forms.fields === "more" ? furtherOfBooking(booking) : {};
    return { ...further, ...common(rest, forms), ...(forms.dates === "absent" ? {} : dates) };
  },

  listing(listing: Properties, forms: AnswerForms): Properties {
    return { ...(forms.fields === "more" ? furtherOfListing : {}), ...common(listing, forms) };
  },

  config<C extends Properties | undefined>(config: C, forms: AnswerForms): C {
    if (config === undefined || forms.fields !== "more") return config;
    const topics = { bookings: null, listings: null, messages: null };
    return {
      id: "cfg_1",
      createdAt: "2026-01-31T12:00:00Z",
      ...config,
      endpoints: { ...topics, ...(config.endpoints as Properties) },
    };
  },
};

function common(record: Properties, { listingIds, statuses }: AnswerForms): Properties {
  const { listingId, status } = record;
  return {
    ...record,
    ...(listingId !== undefined && { listingId: listingIds === "string" ? String(listingId) : listingId }),
    status: statuses === "unlisted" ? `Newer${status}` : status,
  };
}

/** @param time - the time and offset of a date-time */
function date(value: unknown, time: string, { dates }: AnswerForms): unknown {
  if (dates === "null") return null;
  // Leave a date in another format as it is.
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\d$/.test(value)) return value;
  switch (dates) {
    case "date-time":
      return `${value}T${time}`;
    case "seconds":
      return Date.parse(value) / 1000;
    case "milliseconds":
      return Date.parse(value);
    default:
      return value;
  }
}

// Further fields. In other forms of the answer, fields with some of these names, such as `data`, hold the record itself.
// A client must not mistake these fields for the record.
const furtherOfBooking = ({ listingId, bookingCode }: Properties): Properties => ({
  id: `bkg_${bookingCode}`,
  guest: { name: "Ada Lovelace", locale: "en-GB" },
  listing: { listingId, listingName: "The booked one", status: "Published" },
  price: { amount: "412.50", currency: "EUR" },
  items: [{ kind: "cleaning", amount: "40.00" }],
  history: [{ status: "Initiated", at: "2026-01-31T12:00:00Z" }],
  data: null,
  links: { self: `/v2/bookings/${bookingCode}` },
});

const furtherOfListing: Properties = {
  booking: null,
  address: { city: "Ghent", country: "BE" },
  photos: [{ url: "https://images.example/1.jpg" }],
  rates: { data: [{ night: "2026-07-01", amount: "90.00" }] },
  instantBook: true,
};

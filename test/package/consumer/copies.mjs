// Plays parts of one copy of the package with parts of another, and prints what they saw.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const load = async (folder, format) => {
  const from = createRequire(`${folder}/x.js`);
  return async (subpath) =>
    format === "cjs"
      ? from(`stayhook${subpath}`)
      : import(pathToFileURL(from.resolve(`stayhook${subpath}`).replace(/\.cjs$/, ".js")).href);
};
const here = import.meta.dirname;
const copies = {
  esm: await load(here, "esm"),
  cjs: await load(here, "cjs"),
  "esm of another folder": await load(`${here}/other`, "esm"),
  "cjs of another folder": await load(`${here}/other`, "cjs"),
};

const seen = {};
for (const [one, ofOne] of Object.entries(copies))
  for (const [other, ofOther] of Object.entries(copies))
    if (one !== other) seen[`${one} and ${other}`] = await play(ofOne, ofOther);
console.log(JSON.stringify(seen));

async function play(ofOne, ofOther) {
  const [one, other] = [await ofOne(""), await ofOther("")];
  return {
    different: one.StayhookClient !== other.StayhookClient,
    names: [one.StayhookClient.name, one.APIError.name, one.NotFoundError.name, one.ProcessingError.name],
    instances: instances(one, other),
    reasons: await reasons(one, other),
    stay: await stayOf(one, other, await ofOne("/testing")),
    reconciler: await reconcile(one, other, await ofOne("/reconcile"), await ofOther("/reconcile")),
    mounted: await mounted(other, await ofOne("/node"), await ofOne("/console")),
  };
}

/** Compares the errors of one copy with the classes of another. */
function instances(one, other) {
  const answer = (status) => ({ status, headers: new Headers(), body: undefined, method: "GET", path: "/" });
  const missing = one.APIError.of(answer(404));
  class Mine extends other.NotFoundError {}
  const mine = new Mine(answer(404));
  return {
    own: missing instanceof other.NotFoundError,
    base: [other.APIError, other.StayhookError, Error].every((each) => missing instanceof each),
    sibling: missing instanceof other.ConflictError,
    ofUser: [missing instanceof Mine, mine instanceof Mine, mine instanceof one.NotFoundError],
    others: [null, undefined, 7, {}, new Error("x"), Object.create(null)].some(
      (each) => each instanceof other.StayhookError,
    ),
    made: [
      new one.ResponseValidationError("GET /", [], {}) instanceof other.ResponseValidationError,
      new one.InvalidWriteError("x") instanceof other.InvalidWriteError,
      new one.ProcessingError("x", { reason: "callback", retryable: true }) instanceof other.ProcessingError,
      new one.AccessTokenError("x") instanceof other.AccessTokenError,
      new one.ConnectionTimeoutError("x") instanceof other.ConnectionError,
      new one.StayhookClient({ baseUrl: "https://h.example", accessToken: "t" }) instanceof
        other.StayhookClient,
    ],
  };
}

function clientOf({ StayhookClient }, answer, options) {
  const fetch = async (url) => answer(new URL(url));
  return new StayhookClient({
    baseUrl: "https://h.example",
    accessToken: "t",
    maxRetries: 0,
    fetch,
    logger: silent,
    ...options,
  });
}

function silent() {}

function post(webhooks, eventId, bookingCode = "A") {
  const body = JSON.stringify({ eventId, timestamp: new Date().toISOString(), bookingCode, listingId: null });
  return webhooks.fetch(new Request("https://app.example/hooks?topic=bookings", { method: "POST", body }));
}

/** The reason of each failed read, with a client of one copy and a handler of another. */
async function reasons(one, other) {
  const answers = {
    503: () => new Response("", { status: 503 }),
    429: () => new Response("", { status: 429 }),
    401: () => new Response("", { status: 401 }),
    404: () => new Response("", { status: 404 }),
    403: () => new Response("", { status: 403 }),
    "wrong record": () => Response.json({ bookingCode: "B", status: "Confirmed" }),
    "no connection": () => {
      throw Object.assign(new Error("x"), { code: "ECONNREFUSED" });
    },
  };
  const found = {};
  for (const [name, answer] of Object.entries(answers)) {
    const webhooks = other.createWebhookHandler({
      client: clientOf(one, answer),
      store: other.forwardTo(async () => {}),
      verify: false,
      logger: silent,
      on: { booking() {} },
    });
    const event = {
      eventId: crypto.randomUUID(),
      timestamp: new Date().toISOString(),
      bookingCode: "A",
      listingId: null,
    };
    const error = await webhooks.process(event).catch((thrown) => thrown);
    found[name] = [error instanceof one.ProcessingError, error.reason];
    await webhooks.close();
  }
  return found;
}

/** `event.stayChange` with a model that keeps only the code and the status, and of an event of `createTestEvent`. */
async function stayOf(one, other, { createTestEvent }) {
  let checkIn = "2027-01-01";
  const record = () =>
    Response.json({ bookingCode: "A", status: "Confirmed", listingId: 7, checkIn, checkOut: "2027-01-09" });
  const booking = {
    "~standard": {
      version: 1,
      vendor: "own",
      validate: ({ bookingCode, status }) => ({ value: { bookingCode, status } }),
    },
  };
  const changes = [];
  for (const track of [{}, { booking: () => ({}) }]) changes.push(...(await changesWith(track)));
  const moved = createTestEvent("booking.Confirmed", {
    booking: { bookingCode: "A", listingId: 7, checkIn: "2027-01-02", checkOut: "2027-01-09" },
    previous: { status: "Confirmed", listingId: 7, checkIn: "2027-01-01", checkOut: "2027-01-09" },
  });
  return { changes, tested: moved.stayChange.from.checkIn };

  async function changesWith(track) {
    const found = [];
    const webhooks = other.createWebhookHandler({
      client: clientOf(one, record, { models: { booking } }),
      store: one.memoryStore(),
      verify: false,
      logger: silent,
      autoStart: false,
      track,
      on: { booking: (event) => void found.push([event.changed, event.stayChange]) },
    });
    for (const [index, day] of ["2027-01-01", "2027-01-02"].entries()) {
      checkIn = day;
      await post(webhooks, `00000000-0000-4000-8000-00000000000${index}`);
      await webhooks.drain();
    }
    await webhooks.close();
    return found.map(([changed, { from, to }]) => [changed, from?.checkIn, to?.checkIn]);
  }
}

/** A reconciler of one copy on a handler of another, whose list has a next page. */
async function reconcile(one, other, ...copiesOfReconcile) {
  const reports = [];
  for (const { createReconciler } of copiesOfReconcile) {
    const list = { listings: [{ listingId: 7, status: "Published" }], hasMore: true };
    const answer = ({ pathname }) => Response.json(pathname === "/v2/listings" ? list : list.listings[0]);
    const webhooks = other.createWebhookHandler({
      client: clientOf(one, answer),
      store: other.memoryStore(),
      verify: false,
      logger: silent,
      autoStart: false,
      on: { listing() {} },
    });
    const reconciler = createReconciler(webhooks, { every: "1h" });
    const { checked, partial } = await reconciler.run();
    reports.push([checked, partial]);
    await reconciler.close?.();
    await webhooks.close();
  }
  return reports;
}

/** The adapter and the console of one copy around a handler of another. */
async function mounted(other, { toNodeHandler }, { createConsole }) {
  const { createServer } = await import("node:http");
  const webhooks = other.createWebhookHandler({
    client: clientOf(other, () => Response.json({ bookingCode: "A", status: "Confirmed" })),
    store: other.memoryStore(),
    verify: false,
    logger: silent,
    autoStart: false,
    on: { booking() {} },
  });
  const statuses = [];
  const pages = createConsole(webhooks, { authorize: () => true });
  for (const [handler, init] of [
    [
      webhooks,
      {
        method: "POST",
        body: '{"eventId":"00000000-0000-4000-8000-000000000009","timestamp":"2027-01-01T00:00:00Z","bookingCode":"A","listingId":null}',
      },
    ],
    [pages, {}],
  ]) {
    const server = createServer(toNodeHandler(handler));
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/?topic=bookings`, init);
    statuses.push(answer.status);
    await answer.text();
    await new Promise((resolve) => server.close(resolve));
  }
  await webhooks.close();
  return statuses;
}

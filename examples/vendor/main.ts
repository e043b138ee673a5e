// The service of a vendor: many accounts of the platform, one handler, one reconciler, a calendar for each account, and a
// console behind a login. PostgreSQL if DATABASE_URL is set, else one SQLite file.
//
//   npm install stayhook express pg
//   STAYHOOK_BASE_URL=… WEBHOOK_SECRET=… ADMIN_SECRET=… ACCOUNTS_KEY=… node main.ts
//
// Each secret is the output of `openssl rand -hex 32`. Also taken from the environment: PUBLIC_URL, such as
// https://you.example/hooks, which the platform calls, DATABASE_URL, HOST (127.0.0.1), PORT (3000), EVENTS_DB (events.db),
// RECONCILE_EVERY (24h) and TIME_ZONE. Several processes may run with PostgreSQL, and one with SQLite. Your own backend calls the
// routes, with the header `Authorization: Bearer <ADMIN_SECRET>`:
//
//   POST /accounts { "account": "a17", "token": "…" }     joins, or has a new token
//     "bookings": ["HX3K9"]                               also adds bookings that the host has already
//   DELETE /accounts/a17                                  leaves: everything of the account is deleted
//   GET /accounts, GET /accounts/a17/calendar
//   GET /metrics                                          for Prometheus
//
// GET /healthz needs no secret, for a load balancer. A browser shows the console at /console. The password is
// ADMIN_SECRET, and the user name does not matter.
import { createHash, timingSafeEqual } from "node:crypto";
import express, { type ErrorRequestHandler, type RequestHandler } from "express";
import { AuthenticationError, InvalidArgumentError, NotFoundError } from "stayhook";
import { createConsole } from "stayhook/console";
import { toNodeHandler } from "stayhook/node";
import { accountIds, isServed } from "./accounts.ts";
import { calendarOf } from "./calendar.ts";
import { db, store } from "./database.ts";
import { finishLeaving, JoinedAgainError, join, leave } from "./membership.ts";
import { metricsOf } from "./metrics.ts";
import { adminSecret, host, port } from "./settings.ts";
import { reconciler, webhooks } from "./webhooks.ts";

const digest = (text: string) => createHash("sha256").update(text).digest();

/** Takes the secret as a bearer token, or as the password of a browser's login. */
function isAdmin(authorization: string | null | undefined): boolean {
  const [scheme = "", given = ""] = (authorization ?? "").split(" ");
  const secret = /^basic$/i.test(scheme)
    ? Buffer.from(given, "base64")
        .toString()
        .replace(/^[^:]*:/, "")
    : given;
  return timingSafeEqual(digest(secret), digest(adminSecret));
}

const admin: RequestHandler = (request, response, next) => {
  if (isAdmin(request.headers.authorization)) next();
  else response.status(401).set("www-authenticate", 'Basic realm="vendor"').end();
};

/** The key of an account's URL stays valid when the account has left, so the table decides. */
const served: RequestHandler = async (request, response, next) => {
  if (await isServed(String(request.query.account))) next();
  else response.status(404).json({ error: "There is no such account." });
};

const inbox = createConsole(webhooks, {
  basePath: "/console",
  authorize: ({ headers }) => isAdmin(headers.get("authorization")),
});

const app = express();
app.all("/hooks", served, toNodeHandler(webhooks));
app.use("/console", admin, toNodeHandler(inbox));
app.use("/accounts", admin, express.json());

app.get("/healthz", async (_request, response) => {
  const { state } = await webhooks.health();
  const takesNotifications = state !== "unavailable" && state !== "stopped";
  response.status(takesNotifications ? 200 : 503).json({ state });
});

app.get("/metrics", admin, async (_request, response) => {
  response.type("text/plain; version=0.0.4").send(metricsOf(await webhooks.health()));
});

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";

app.post("/accounts", async (request, response) => {
  const { account, token, bookings = [] } = Object(request.body) as Readonly<Record<string, unknown>>;
  if (!isText(account) || !isText(token) || !Array.isArray(bookings) || !bookings.every(isText)) {
    const error = "The body must be JSON with an account and a token, and may have an array of bookings.";
    return void response.status(400).json({ error });
  }
  await join(account, token, bookings);
  response.status(201).json({ account });
});

app.delete("/accounts/:account", async (request, response) => {
  const left = await leave(request.params.account);
  response.status(left ? 204 : 404).end();
});

app.get("/accounts", async (_request, response) => {
  const { pausedAccounts } = await webhooks.health();
  response.json({ accounts: await accountIds(), paused: pausedAccounts });
});

app.get("/accounts/:account/calendar", async (request, response) => {
  response.json(await calendarOf(request.params.account));
});

const answerError: ErrorRequestHandler = (error, _request, response, _next) => {
  if (error instanceof InvalidArgumentError) response.status(400).json({ error: error.message });
  else if (error instanceof AuthenticationError)
    response.status(422).json({ error: "The platform refuses the token. Send another one." });
  else if (error instanceof NotFoundError)
    response
      .status(422)
      .json({ error: "The platform does not know one of the bookings. The others are added." });
  else if (error instanceof JoinedAgainError) response.status(409).json({ error: error.message });
  else {
    console.error(error);
    response.status(error.status ?? 503).json({ error: "Try again." });
  }
};
app.use(answerError);

await webhooks.ready(); // a wrong database ends the process now, and not with the first notification
reconciler.start();
finishLeaving().catch((error) =>
  console.error("Accounts could not leave. The next start tries again:", error),
);
const server = app.listen(port, host, () => console.log(`listening on port ${port} of ${host}`));
// Longer than load balancers keep idle connections, so that none sends a notification over one that is being closed.
server.keepAliveTimeout = 75_000;

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);

async function stop() {
  server.close();
  await reconciler.close();
  await webhooks.close(); // waits for the callbacks that run
  await store.close();
  await db.close();
  process.exit(); // a callback that ignores its signal may hold a timer
}

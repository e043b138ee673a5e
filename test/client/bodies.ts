import type { Reply } from "./support.ts";

// Each of these says that there is no configuration or record.
export const none: [Reply][] = [
  [{ status: 404, json: { message: "none" } }],
  [{ status: 410 }],
  [{ status: 204 }],
  [{ text: "" }],
  [{ text: " \n" }],
  [{ json: null }],
  [{ json: {} }],
  [{ json: { data: null } }],
  [{ json: { config: {} } }],
  [{ json: { data: { booking: null } } }],
  [{ json: { data: { result: {} } } }],
  [{ json: { anything: null } }],
  [{ json: { success: true } }],
  [{ json: { success: true, data: null } }],
  [{ json: { data: null, message: "nothing here" } }],
  [
    {
      json: {
        data: null,
        code: 0,
        status: "ok",
        statusCode: 200,
        errorCode: "0",
        error: null,
        success: true,
      },
    },
  ],
  [{ json: { data: null, code: "NOT_FOUND", error: false } }],
  [{ json: { code: 404, error: "not found" } }],
  [{ json: { code: "410", success: false } }],
  [{ json: { status: 404, title: "Not found", data: { x: 1 } } }],
  [{ json: { status: 410 } }],
];

// Each of these is unclear: it holds no configuration or record, but does not clearly say that there is none.
export const unclear: [Reply][] = [
  [{ json: { message: "no configuration" } }],
  [{ json: { success: true, message: "no configuration" } }],
  [{ json: { success: true, ok: true } }],
  [{ json: { message: "maintenance", details: null } }],
  [{ json: { data: null, code: 500 } }],
  [{ json: { data: null, code: "500" } }],
  [{ json: { data: null, status: "error" } }],
  [{ json: { data: null, status: "Failed" } }],
  [{ json: { data: null, status: 503 } }],
  [{ json: { data: null, statusCode: 502 } }],
  [{ json: { data: null, errorCode: "ERR_DB" } }],
  [{ json: { data: null, message: "Error: database down" } }],
  [{ json: { data: null, message: { code: 1 } } }],
  [{ json: { data: null, error: {} } }],
  [{ json: { data: null, config: 5 } }],
  [{ json: { data: [] } }],
  [{ json: { data: "" } }],
  [{ json: { a: { b: { c: null } } } }],
  [{ json: { data: { message: "x" } } }],
  [{ json: { data: { data: { data: {} } } } }],
  [{ json: [] }],
  [{ json: "none" }],
  [{ text: "<html>maintenance</html>" }],
];

// Each of these reports a failure.
export const failing: [Reply][] = [
  [{ json: { data: null, error: "database down" } }],
  [{ json: { data: null, errors: [{ message: "database down" }] } }],
  [{ json: { success: false, data: null } }],
  [{ json: { success: false } }],
  [{ json: { error: { code: 500 }, data: {} } }],
  [{ json: { error: 500 } }],
];

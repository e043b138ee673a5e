import type { Issue } from "../../../src/errors.ts";
import type { WireResponse } from "../../../src/sandbox/api.ts";
import type { PlatformResponse } from "../../../src/sandbox/platform.ts";
import type { AnswerForms } from "./profiles.ts";
import { withForms } from "./render-records.ts";

type Properties = Readonly<Record<string, unknown>>;

/** Writes an answer of the platform in the given forms. */
export function render(response: PlatformResponse, forms: AnswerForms): WireResponse {
  const { status, headers = {}, text } = formOf(response, forms);
  return { status, headers: { ...headers, ...response.headers }, text };
}

interface Form {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly text?: string;
}

function formOf(response: PlatformResponse, forms: AnswerForms): Form {
  const { status, body } = response;
  switch (response.shape) {
    case "write":
      return write(status, withForms.config(body as Properties | undefined, forms), forms);
    case "config":
      return json(status, wrapped(withForms.config(body as Properties, forms), "config", forms));
    case "no-config":
      return noConfig(response, forms);
    case "booking":
      return json(status, wrapped(withForms.booking(body as Properties, forms), "booking", forms));
    case "listing":
      return json(status, wrapped(withForms.listing(body as Properties, forms), "listing", forms));
    case "listings":
      return list(status, body as readonly Properties[], forms);
    case "error":
      return error(status, body as ErrorBody, forms);
  }
}

const noContent: Form = { status: 204 };

const json = (status: number, body: unknown, headers: Record<string, string> = {}): Form => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  text: JSON.stringify(body),
});

const plain = (status: number, text: string, type = "text/plain"): Form => ({
  status,
  headers: { "content-type": `${type}; charset=utf-8` },
  text,
});

function write(usual: number, config: Properties | undefined, forms: AnswerForms): Form {
  const status = forms.writeStatus === "usual" ? usual : forms.writeStatus;
  switch (forms.writes) {
    case "config":
      return config ? json(status, config) : noContent;
    case "no-content":
      return noContent;
    case "empty":
      return { status };
    case "object":
      return json(status, {});
    case "message":
      return json(status, { message: "The webhook configuration was changed." });
    case "text":
      return plain(status, "OK");
    case "wrapped":
      return json(status, { data: config ?? null });
    case "named":
      return json(status, { success: true, config: config ?? null });
  }
}

function noConfig(response: PlatformResponse, forms: AnswerForms): Form {
  switch (forms.noConfig) {
    case "not-found":
      return error(response.status, response.body as ErrorBody, forms);
    case "no-content":
      return noContent;
    case "empty":
      return { status: 200 };
    case "null":
      return json(200, null);
    case "object":
      return json(200, {});
    case "wrapped":
      return json(200, { data: null });
    case "named":
      return json(200, { success: true, config: null });
  }
}

function wrapped(record: unknown, name: string, forms: AnswerForms): unknown {
  if (forms.records === "bare") return record;
  return { ...envelope(forms), [forms.records === "data" ? "data" : name]: record };
}

/** Returns the properties beside a record or list. */
function envelope({ fields }: AnswerForms): Properties {
  return fields === "more" ? { success: true, requestedAt: "2026-01-31T12:00:00Z", warnings: [] } : {};
}

function list(status: number, records: readonly Properties[], forms: AnswerForms): Form {
  const rows = records.map((listing) => withForms.listing(listing, forms));
  const { paging, lists } = forms;
  if (lists === "bare") return json(status, rows, pagingHeaders(paging, rows.length));
  const pages = pagingFields(paging, rows.length);
  const beside = { ...envelope(forms), ...pages };
  return json(
    status,
    lists === "nested" ? { ...beside, data: { listings: rows, ...pages } } : { ...beside, [lists]: rows },
  );
}

function pagingHeaders(paging: AnswerForms["paging"], rows: number): Record<string, string> {
  if (paging === "none") return {};
  if (paging === "last") return { "x-total-count": String(rows) };
  return { "x-total-count": String(rows + 20), link: '</v2/listings?page=2>; rel="next"' };
}

function pagingFields(paging: AnswerForms["paging"], rows: number): Properties {
  if (paging === "none") return {};
  if (paging === "last") return { meta: { page: 1, totalPages: 1, total: rows }, next: null, hasMore: false };
  return { meta: { page: 1, totalPages: 2, total: rows + 20 }, next: "/v2/listings?page=2" };
}

interface ErrorBody {
  readonly code: string;
  readonly message: string;
  readonly issues?: readonly Issue[];
}

function error(status: number, body: ErrorBody, { errors }: AnswerForms): Form {
  const { code, message, issues = [] } = body;
  switch (errors) {
    case "object":
      return json(status, { error: body });
    case "message":
      return json(status, { error: message });
    case "list":
      return json(status, {
        errors: [
          { code, message },
          ...issues.map((issue) => ({ field: issue.path.join("."), message: issue.message })),
        ],
      });
    case "problem": {
      const problem = { type: "about:blank", title: code, status, detail: message, errors: issues };
      return { ...json(status, problem), headers: { "content-type": "application/problem+json" } };
    }
    case "text":
      return plain(status, message);
    case "html":
      return plain(
        status,
        `<!doctype html><html><body><h1>${status}</h1><p>${message}</p></body></html>`,
        "text/html",
      );
    case "empty":
      return { status };
  }
}

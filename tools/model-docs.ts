import { readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";

const models = join(import.meta.dirname, "../src/models");

export type Model = "Booking" | "Listing" | "WebhookNotification" | "WebhookConfig";

const files: Readonly<Record<Model, string>> = {
  Booking: "records.ts",
  Listing: "records.ts",
  WebhookNotification: "notification.ts",
  WebhookConfig: "records.ts",
};

export interface ModelField {
  readonly name: string;
  /** The type as TypeScript writes it, without `undefined`. */
  readonly type: string;
  readonly required: boolean;
  /** The TSDoc, on one line. */
  readonly text: string;
}

/** The TSDoc of a model's interface, and its members. */
export function documentModel(model: Model): { readonly text: string; readonly fields: ModelField[] } {
  const path = join(models, files[model]);
  const source = ts.createSourceFile(path, readFileSync(path, "utf8"), ts.ScriptTarget.Latest, true);
  const declared = source.statements
    .filter(ts.isInterfaceDeclaration)
    .find(({ name }) => name.text === model);
  if (declared === undefined) throw new Error(`${path} declares no interface ${model}`);
  const fields = declared.members.filter(ts.isPropertySignature).map((member) => ({
    name: member.name.getText(source),
    type: member.type?.getText(source).replace(/ \| undefined$/, "") ?? "",
    required: member.questionToken === undefined,
    text: textOf(member),
  }));
  return { text: textOf(declared), fields };
}

function textOf(node: ts.Node): string {
  const [comment] = ts.getJSDocCommentsAndTags(node);
  const text = ts.getTextOfJSDocComment(comment?.comment) ?? "";
  return text.replaceAll(/\{@link (\w+)\}/g, "`$1`").replaceAll(/\s+/g, " ");
}

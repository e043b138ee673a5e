import { Log } from "../logger.ts";
import type { ProcessOptions } from "../webhooks/processing/process.ts";
import { assertHandler } from "./assert-handler.ts";

/** What of a webhook handler is used here. */
export interface SqsWebhooks {
  process(notification: string, options?: ProcessOptions): Promise<unknown>;
}

/** What of Lambda's event for a batch of SQS messages is used here. */
export interface SqsEvent {
  readonly Records: readonly SqsRecord[];
}

/** What of one SQS message is used here. */
export interface SqsRecord {
  readonly messageId: string;
  readonly body: string;
  readonly attributes?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Tells SQS which messages to deliver again: the event source needs `ReportBatchItemFailures`. */
export interface SqsBatchResponse {
  readonly batchItemFailures: { readonly itemIdentifier: string }[];
}

/**
 * Processes what `forwardTo` has put into an SQS queue, in a Lambda function: one message a notification, its
 * body the event as JSON, or the notification.
 *
 * In a FIFO queue with the record as group (`MessageGroupId: event.ref ?? event.eventId`) the messages of a
 * group run one after the other, and behind one that failed the rest of its group waits: nothing of one record
 * runs twice at once, or out of order. In a standard queue all run at once.
 *
 * A message that fails is reported to SQS, which delivers it again, and in the end moves it to the dead letters.
 *
 * @example
 * ```ts
 * export const handler = toSqsHandler(webhooks);
 * ```
 */
export function toSqsHandler(webhooks: SqsWebhooks): (event: SqsEvent) => Promise<SqsBatchResponse> {
  assertHandler(webhooks, ["process"]);
  return async ({ Records }) => {
    const failed = await Promise.all(groupsOf(Records).map((group) => processGroup(webhooks, group)));
    return { batchItemFailures: failed.flat().map(({ messageId }) => ({ itemIdentifier: messageId })) };
  };
}

const log = new Log();

/** Messages that exclude each other; one without a group stands alone. */
function groupsOf(records: readonly SqsRecord[]): SqsRecord[][] {
  const groups = new Map<string, SqsRecord[]>();
  for (const record of records) {
    const group = record.attributes?.MessageGroupId;
    const key = group === undefined ? `message:${record.messageId}` : `group:${group}`;
    groups.set(key, [...(groups.get(key) ?? []), record]);
  }
  return [...groups.values()];
}

/** Resolves to those to be delivered again: the first that failed, and all behind it. */
async function processGroup(
  webhooks: SqsWebhooks,
  group: readonly SqsRecord[],
): Promise<readonly SqsRecord[]> {
  for (const [index, { messageId, body, attributes }] of group.entries()) {
    const received = Number(attributes?.ApproximateReceiveCount);
    const attempt = Number.isSafeInteger(received) && received > 0 ? received : 1;
    try {
      await webhooks.process(body, { attempt });
    } catch (error) {
      // SQS keeps no reason, so that it has to stand in Lambda's log. A callback's own error has the stack.
      const { reason, cause } = Object(error) as { readonly reason?: string; readonly cause?: unknown };
      const shown = reason === "callback" ? cause : error;
      log.error(`SQS message ${messageId} failed, and will be delivered again`, { error: shown, reason });
      return group.slice(index);
    }
  }
  return [];
}

import { Log } from "../logger.ts";
import type { ProcessOptions } from "../webhooks/processing/process-now.ts";
import { assertHandler } from "./handlers.ts";

/** The part of a webhook handler that the function uses. */
export interface SqsWebhooks {
  /** Processes one notification. */
  process(notification: string, options?: ProcessOptions): Promise<unknown>;
}

/** The part of Lambda's event for a batch of SQS messages that the function uses. */
export interface SqsEvent {
  /** The messages of the batch. */
  readonly Records: readonly SqsRecord[];
}

/** The part of an SQS message that the function uses. */
export interface SqsRecord {
  /** The id by which SQS knows the message. */
  readonly messageId: string;
  /** The text of the message: the event as JSON, or the notification. */
  readonly body: string;
  /** The attributes that SQS adds, `ApproximateReceiveCount` among them. */
  readonly attributes?: Readonly<Record<string, string | undefined>> | undefined;
}

/** Tells SQS which messages to deliver again. The event source needs `ReportBatchItemFailures`. */
export interface SqsBatchResponse {
  /** The messages that failed. SQS delivers them again. */
  readonly batchItemFailures: {
    /** The `messageId` of the message. */
    readonly itemIdentifier: string;
  }[];
}

/**
 * Makes a Lambda function that processes the events which `forwardTo` sent to an SQS queue. The body of each message is
 * the event as JSON, or the notification.
 *
 * In a FIFO queue, take the record as group: `MessageGroupId: event.ref ?? event.eventId`. The messages of a group then
 * run one after the other. After a failure the rest of the group waits, so that no two events of one record run at once
 * or out of order. In a standard queue all messages run at once.
 *
 * SQS delivers a failed message again, and moves it to the dead letter queue in the end.
 *
 * @throws InvalidArgumentError where `webhooks` is not a handler
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

/** The messages by group. A message without a group is a group of its own. */
function groupsOf(records: readonly SqsRecord[]): SqsRecord[][] {
  const groups = new Map<string, SqsRecord[]>();
  for (const record of records) {
    const group = record.attributes?.MessageGroupId;
    const key = group === undefined ? `message:${record.messageId}` : `group:${group}`;
    groups.set(key, [...(groups.get(key) ?? []), record]);
  }
  return [...groups.values()];
}

/** Resolves to the messages that SQS has to deliver again: the first that failed, and all after it. */
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

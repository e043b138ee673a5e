import { Log } from "../logger.ts";
import type { ProcessOptions } from "../webhooks/processing/process-now.ts";
import { assertHandler } from "./handlers.ts";

/** The part of a webhook handler that the Lambda function uses. */
type SqsWebhooks = {
  /** Processes one notification. */
  process(notification: string, options?: ProcessOptions): Promise<unknown>;
};

/** Lambda's event for a batch of SQS messages. Declares only the fields that the Lambda function uses. */
export interface SqsEvent {
  /** The messages of the batch. */
  readonly Records: readonly SqsRecord[];
}

/** The part of an SQS message that the Lambda function uses. */
type SqsRecord = {
  /** The id that SQS gave the message. */
  readonly messageId: string;
  /** The text of the message: the event as JSON, or the notification. */
  readonly body: string;
  /** The attributes that SQS adds, such as `ApproximateReceiveCount`. */
  readonly attributes?: Readonly<Record<string, string | undefined>> | undefined;
};

/**
 * Lists the messages that SQS must deliver again. Lambda reads the list only if you enable `ReportBatchItemFailures`
 * for the event source.
 */
export interface SqsBatchResponse {
  /** Each failed message, and the later messages of its group. SQS delivers all of them again. */
  readonly batchItemFailures: {
    /** The `messageId` of the message. */
    readonly itemIdentifier: string;
  }[];
}

/**
 * Makes a Lambda function for an SQS queue. The function processes the events that `forwardTo` sent to the queue. The
 * body of each message is the event as JSON, or the notification.
 *
 * In a FIFO queue, group messages by record: `MessageGroupId: event.ref ?? event.eventId`. The function processes the
 * messages of a group one after the other. After a failure, SQS also delivers the rest of the group again, to keep
 * the order. In a standard queue, the function processes all messages concurrently. After too many failures, SQS
 * moves a message to the dead letter queue.
 *
 * @throws InvalidArgumentError if `webhooks` is not a handler
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

/** Splits the messages into groups. A message without `MessageGroupId` is a group of its own. */
function groupsOf(records: readonly SqsRecord[]): SqsRecord[][] {
  const groups = new Map<string, SqsRecord[]>();
  for (const record of records) {
    const group = record.attributes?.MessageGroupId;
    const key = group === undefined ? `message:${record.messageId}` : `group:${group}`;
    groups.set(key, [...(groups.get(key) ?? []), record]);
  }
  return [...groups.values()];
}

/**
 * Processes the messages of a group in order. Stops at the first failed message. Resolves to the messages that SQS
 * must deliver again: the failed message and all messages after it.
 */
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
      // Log the reason, because SQS does not store one. If a callback threw, log the callback's error with its stack.
      const { reason, cause } = Object(error) as { readonly reason?: string; readonly cause?: unknown };
      const shown = reason === "callback" ? cause : error;
      log.error(`SQS message ${messageId} failed, so SQS will deliver it again`, { error: shown, reason });
      return group.slice(index);
    }
  }
  return [];
}

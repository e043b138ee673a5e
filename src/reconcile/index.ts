export type { ReconcilerAlarm } from "../webhooks/observe.ts";
export type {
  Incomplete,
  ReconcileObservation,
  ReconcileReport,
  ReconcilerOptions,
} from "./options.ts";
export { createReconciler, type Reconciler } from "./reconciler.ts";

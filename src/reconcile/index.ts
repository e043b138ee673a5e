export type {
  Incomplete,
  ReconcileObservation,
  ReconcileReport,
  ReconcilerAlarm,
  ReconcilerOptions,
} from "./options.ts";
export { createReconciler, type Reconciler } from "./reconciler.ts";

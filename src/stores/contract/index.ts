export {
  type StoreContractCase,
  type StoreContractOptions,
  storeContract,
} from "./store-contract.ts";

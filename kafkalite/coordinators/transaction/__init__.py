"""The coordinator of transactions (Kafka's TransactionCoordinator: KIP-98, KIP-360, KIP-588).

`machine` has the transactional ids of one partition of `__transaction_state`; `transitions` are pure functions from a stored state and a
request to the next stored state.
"""

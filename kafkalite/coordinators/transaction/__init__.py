"""Transactions, as Kafka's TransactionCoordinator keeps them (KIP-98, KIP-360, KIP-588).

`machine` hosts the transactional ids of one partition of `__transaction_state`; what becomes of one is decided in `transitions`, which
are pure functions from a stored state and a request to the next stored state.
"""

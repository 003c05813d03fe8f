"""From the bytes of a request to the bytes of its response: dispatch, versions, authorization, event-loop turns, metering, test faults.

Handlers use `served_api`, `guards` and `request_context`; connections use `request_handler`. Nothing here knows a connection's class.
"""

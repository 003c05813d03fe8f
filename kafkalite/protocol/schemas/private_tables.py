"""Schemas of kafkalite's private APIs (`Api.is_private`), in the form of `schema_notation`.

There is nobody to compare them with. Only brokers of one cluster, `kafkalite mirror back` and clients of ours send them, and these may
be of other releases: a field that is added gets a version of its own.
"""

from __future__ import annotations

from typing import Final

PRIVATE_TABLES: Final[dict[str, str]] = {
    "peer_heartbeat_request": """
PeerHeartbeatRequest 0-0
 broker_id int32 0-0 default=-1
 broker_epoch int64 0-0 default=-1
 incarnation uuid 0-0
 session_id int64 0-0
 session_password bytes? 0-0
 accusations []Accusation 0-0
  broker_id int32 0-0 default=-1
  broker_epoch int64 0-0 default=-1
  evidence int8 0-0
 neighbours []Neighbour 0-0
  broker_id int32 0-0 default=-1
  broker_epoch int64 0-0 default=-1
  is_heard bool 0-0
""",
    "peer_heartbeat_response": """
PeerHeartbeatResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 broker_epoch int64 0-0 default=-1
 incarnation uuid 0-0
 neighbours []Neighbour 0-0
  broker_id int32 0-0 default=-1
  broker_epoch int64 0-0 default=-1
  is_heard bool 0-0
""",
    "metadata_digests_request": """
MetadataDigestsRequest 0-0
 controller_id int32 0-0 default=-1
 controller_epoch int32 0-0
 broker_epoch int64 0-0 default=-1
 buckets int32 0-0
""",
    "metadata_digests_response": """
MetadataDigestsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 digests bytes 0-0
""",
    "copy_records_request": """
CopyRecordsRequest 0-0
 topic string 0-0
 partition_index int32 0-0
 log_end_offset int64 0-0
 timeout_ms int32 0-0
 records records? 0-0
""",
    "copy_records_response": """
CopyRecordsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 log_end_offset int64 0-0 default=-1
""",
    "digest_records_request": """
DigestRecordsRequest 0-0
 topic string 0-0
 partition_index int32 0-0
 current_leader_epoch int32 0-0 default=-1
 start_offset int64 0-0
 end_offset int64 0-0
 since_timestamp int64 0-0
 until_timestamp int64 0-0
 is_fresh bool 0-0
""",
    "digest_records_response": """
DigestRecordsResponse 0-0
 throttle_time_ms int32 0-0
 error_code int16 0-0
 error_message string? 0-0
 log_start_offset int64 0-0 default=-1
 last_stable_offset int64 0-0 default=-1
 next_offset int64 0-0 default=-1
 records int64 0-0
 first_offset int64 0-0 default=-1
 last_offset int64 0-0 default=-1
 least_timestamp int64 0-0
 largest_timestamp int64 0-0
 content_bytes int64 0-0
 fingerprint bytes 0-0
""",
}

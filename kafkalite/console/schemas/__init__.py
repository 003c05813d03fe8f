"""Values whose schemas a registry has, decoded for display.

| File | What it does |
|---|---|
| `registry` | asks a registry for schemas, keeps them, and decodes values by them |
| `avro` | Avro's binary encoding |
| `protobuf` | Protobuf's wire format, by descriptors |

Neither needs the libraries of these formats: what is shown is small and of unknown origin, so everything is bounded.
"""

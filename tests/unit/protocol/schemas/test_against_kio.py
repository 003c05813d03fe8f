"""Every message version that kio ships: what kio writes we read, what we write kio reads, with equal values."""

from __future__ import annotations

import io
import random

from kio.serial import entity_reader, entity_writer

from kafkalite.protocol import messages
from kafkalite.protocol.apis import APIS, NEVER_FLEXIBLE
from kafkalite.protocol.schemas.compiler import compile_reader, compile_writer
from kafkalite.protocol.schemas.kio_schemas import versions_of
from tests.case import case
from tests.unit.protocol.kio_oracle import all_versions, as_ours, is_declared, random_entity

SEEDS = range(4)
SHIPPED = [each for each in all_versions() if not is_declared(each.api, each.version)]
"""Without the versions that are declared in `control_tables`, `legacy_tables` and `private_tables`."""


def test_we_read_what_kio_writes() -> None:
    for each in SHIPPED:
        with case(each):
            read = compile_reader(messages.schema(each.api, each.direction, each.version), each.classes)
            write = entity_writer(each.kio_class)
            for seed in SEEDS:
                entity = random_entity(each.kio_class, random.Random(seed))
                buffer = io.BytesIO()
                write(buffer, entity)
                for frame in (buffer.getvalue(), memoryview(bytearray(buffer.getvalue()))):
                    assert read(frame, 0) == as_ours(entity, each.classes), f"seed {seed}"


def test_kio_reads_what_we_write() -> None:
    for each in SHIPPED:
        with case(each):
            write = compile_writer(messages.schema(each.api, each.direction, each.version), each.classes)
            read = entity_reader(each.kio_class)
            for seed in SEEDS:
                entity = random_entity(each.kio_class, random.Random(seed))
                encoded = b"".join(write(as_ours(entity, each.classes)))
                found, size = read(encoded, 0)
                assert found == entity, f"seed {seed}"
                assert size == len(encoded)


def test_flexible_encoding_begins_where_kio_says() -> None:
    for each in SHIPPED:
        with case(each):
            assert each.api.is_flexible(each.version) == each.kio_class.__flexible__


def test_every_version_of_the_table_has_a_schema() -> None:
    for api in APIS.values():
        with case(api):
            for version in range(api.min_version, api.max_version + 1):
                if not is_declared(api, version):
                    low, high = versions_of(api.name)
                    assert low <= version <= high
                for direction in ("request", "response"):
                    assert messages.schema(api, direction, version).flexible == api.is_flexible(version)
            assert api.flexible_from == NEVER_FLEXIBLE or api.flexible_from <= api.max_version


def test_the_unified_shape_has_the_fields_of_every_version() -> None:
    for api in APIS.values():
        with case(api):
            for direction in ("request", "response"):
                classes = getattr(messages, f"{api.name}_{direction}").CLASSES
                for version in range(api.min_version, api.max_version + 1):
                    for struct in messages.schema(api, direction, version).structs():
                        known = {field.name: field for field in classes[struct.name].FIELDS}
                        for field in struct.fields:
                            assert field.name in known, f"{direction} {version}: {struct.name}.{field.name}"
                            assert field.is_array == known[field.name].is_array


def test_the_header_schema_agrees_with_ours() -> None:
    """The version of the request header and of the response header that goes with each message."""
    from kafkalite.protocol.apis import request_header_version, response_header_version

    for each in SHIPPED:
        ours = request_header_version if each.direction == "request" else response_header_version
        assert ours(each.api, each.version) == each.kio_class.__header_schema__.__version__, str(each)

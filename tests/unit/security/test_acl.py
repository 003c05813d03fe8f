"""What follows from access control lists: implied operations, denials, prefixes, hosts; and which of them a filter takes."""

from __future__ import annotations

import pytest

from kafkalite.security.acl import (
    CLUSTER_NAME,
    AclBinding,
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    from_name,
    pascal_case,
    spellings,
)
from kafkalite.security.acl_index import AclIndex

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
PREFIXED = PatternType.PREFIXED


def entry(
    operation: Operation, permission: PermissionType = ALLOW, principal: str = "User:alice", host: str = "*"
) -> AclEntry:
    return AclEntry(principal, host, operation, permission)


def index_of(*rules: tuple[ResourcePattern, AclEntry]) -> AclIndex:
    index = AclIndex()
    for resource, each in rules:
        index.replace(resource, [*index.entries(resource), each])
    return index


def may(index: AclIndex, operation: Operation, name: str = "orders", host: str = "10.0.0.1") -> bool:
    return index.allows("User:alice", host, operation, TOPIC, name)


ORDERS = ResourcePattern(TOPIC, "orders")
ORD = ResourcePattern(TOPIC, "ord", PREFIXED)
ALL_TOPICS = ResourcePattern(TOPIC, "*")


@pytest.mark.parametrize("given", [each for each in Operation if each not in (Operation.ANY, Operation.ALL)])
def test_what_an_operation_implies(given: Operation) -> None:
    """As Kafka's AclOperation says: four imply DESCRIBE, one DESCRIBE_CONFIGS; a denial denies nothing but itself."""
    allowing = index_of((ORDERS, entry(given)))
    expected = {given}
    if given in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER):
        expected |= {Operation.DESCRIBE}
    if given is Operation.ALTER_CONFIGS:
        expected |= {Operation.DESCRIBE_CONFIGS}
    concrete = [each for each in Operation if each not in (Operation.ANY, Operation.ALL)]
    assert {each for each in concrete if may(allowing, each)} == expected
    denying = index_of((ORDERS, entry(given, DENY)), (ORDERS, entry(Operation.ALL)))
    assert {each for each in concrete if not may(denying, each)} == {given}


@pytest.mark.parametrize("allowed_by", [ORDERS, ORD, ALL_TOPICS])
@pytest.mark.parametrize("denied_by", [ORDERS, ORD, ALL_TOPICS])
@pytest.mark.parametrize("denied_to", ["User:alice", "User:*"])
@pytest.mark.parametrize("denied", [Operation.READ, Operation.ALL])
def test_a_denial_wins_wherever_it_stands(
    allowed_by: ResourcePattern, denied_by: ResourcePattern, denied_to: str, denied: Operation
) -> None:
    index = index_of((allowed_by, entry(Operation.READ)))
    assert may(index, Operation.READ)
    index.replace(denied_by, [*index.entries(denied_by), entry(denied, DENY, denied_to)])
    assert not may(index, Operation.READ)
    assert may(index, Operation.DESCRIBE) is (denied is Operation.READ)


def test_names_principals_types_and_hosts_must_match() -> None:
    index = index_of((ORDERS, entry(Operation.READ, host="10.0.0.1")), (ORD, entry(Operation.WRITE)))
    assert may(index, Operation.READ) and not may(index, Operation.READ, host="10.0.0.2")
    assert not may(index, Operation.READ, "orders2") and may(index, Operation.WRITE, "orders2")
    assert not may(index, Operation.WRITE, "or") and may(index, Operation.WRITE, "ord")
    assert not index.allows("User:bob", "10.0.0.1", Operation.READ, TOPIC, "orders")
    assert not index.allows("User:alice", "10.0.0.1", Operation.READ, GROUP, "orders")


def test_where_no_pattern_covers_a_resource() -> None:
    index = index_of((ORD, entry(Operation.READ, principal="User:bob")))
    for if_none in (False, True):
        assert index.allows("User:alice", "h", Operation.READ, TOPIC, "free", if_none=if_none) is if_none
        assert not index.allows("User:alice", "h", Operation.READ, TOPIC, "orders", if_none=if_none)


def test_entries_that_go_leave_nothing_behind() -> None:
    index = index_of((ORD, entry(Operation.READ)), (ORD, entry(Operation.WRITE)), (ORDERS, entry(Operation.READ, DENY)))
    index.replace(ORDERS, [])
    assert may(index, Operation.READ) and len(index) == 1
    index.replace(ORD, [entry(Operation.WRITE)])
    assert not may(index, Operation.READ) and may(index, Operation.WRITE)
    assert not index.allows_some("User:alice", "h", Operation.READ, TOPIC)
    index.replace(ORD, [])
    index.replace(ORD, [])
    assert not len(index) and not may(index, Operation.WRITE) and not list(index.bindings(AclFilter()))


@pytest.mark.parametrize(
    ("address", "written"),
    [("::1", "0:0:0:0:0:0:0:1"), ("2001:db8::a:0:1", "2001:db8:0:0:0:a:0:1"), ("::ffff:10.0.0.1", "10.0.0.1")],
)
def test_addresses_as_java_writes_them(address: str, written: str) -> None:
    assert written in spellings(address)
    assert may(index_of((ORDERS, entry(Operation.READ, host=written))), Operation.READ, host=address)


@pytest.mark.parametrize(
    ("rules", "if_none", "expected"),
    [
        ([], False, False),
        ([], True, True),
        ([(ORDERS, entry(Operation.WRITE))], False, True),
        ([(ORDERS, entry(Operation.READ))], False, False),
        ([(ORD, entry(Operation.ALL))], False, True),
        ([(ORDERS, entry(Operation.WRITE, principal="User:bob"))], False, False),
        ([(ALL_TOPICS, entry(Operation.WRITE, DENY)), (ORDERS, entry(Operation.WRITE))], True, False),
        ([(ORDERS, entry(Operation.WRITE, DENY)), (ORDERS, entry(Operation.WRITE))], False, False),
        ([(ORD, entry(Operation.WRITE, DENY)), (ORDERS, entry(Operation.WRITE))], False, False),
        ([(ORD, entry(Operation.WRITE, DENY)), (ALL_TOPICS, entry(Operation.WRITE))], False, True),
        ([(ORDERS, entry(Operation.WRITE, DENY)), (ORD, entry(Operation.WRITE))], False, True),
    ],
)
def test_permission_of_any_topic(rules: list[tuple[ResourcePattern, AclEntry]], if_none: bool, expected: bool) -> None:
    """KIP-679: who may write to some topic may write idempotently."""
    index = index_of(*rules)
    assert index.allows_some("User:alice", "h", Operation.WRITE, TOPIC, if_none=if_none) is expected


def test_among_a_hundred_thousand_rules_few_are_looked_at() -> None:
    """Also where one pattern has entries of thousands, and many prefixes begin alike."""
    index = AclIndex()
    for number in range(1000):
        index.replace(ResourcePattern(TOPIC, f"team-{number}-", PREFIXED), [entry(Operation.READ, principal="User:x")])
        index.replace(ResourcePattern(TOPIC, f"t{number}"), [entry(Operation.READ, principal="User:x")])
    index.replace(ALL_TOPICS, [entry(Operation.READ, principal=f"User:{number}") for number in range(98_000)])
    looked_at = list(index._covering(TOPIC, "team-7-orders"))
    assert len(looked_at) == 2, "the wildcard and one prefix"
    assert all(len(each.get("User:7", ())) <= 1 for each in looked_at)
    assert index.allows("User:7", "h", Operation.READ, TOPIC, "team-7-orders")
    assert not index.allows("User:alice", "h", Operation.READ, TOPIC, "team-7-orders")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (AclFilter(), "lpwg"),
        (AclFilter(TOPIC), "lpw"),
        (AclFilter(TOPIC, "orders"), "l"),
        (AclFilter(name="ord"), "p"),
        (AclFilter(TOPIC, "orders", PatternType.MATCH), "lpw"),
        (AclFilter(TOPIC, "ordinary", PatternType.MATCH), "pw"),
        (AclFilter(TOPIC, "*", PatternType.MATCH), "w"),
        (AclFilter(TOPIC, "orders", PatternType.LITERAL), "l"),
        (AclFilter(TOPIC, "ord", PatternType.PREFIXED), "p"),
        (AclFilter(TOPIC, None, PatternType.PREFIXED), "p"),
        (AclFilter(principal="User:bob"), "g"),
        (AclFilter(host="10.0.0.1"), "g"),
        (AclFilter(operation=Operation.WRITE), "p"),
        (AclFilter(permission=DENY), "w"),
        (AclFilter(CLUSTER, CLUSTER_NAME), ""),
    ],
)
def test_which_rules_a_filter_takes(wanted: AclFilter, expected: str) -> None:
    """Kafka's ResourcePatternFilter and AccessControlEntryFilter; found by name or by looking at all, it is the same."""
    rules = {
        "l": AclBinding(ORDERS, entry(Operation.READ)),
        "p": AclBinding(ORD, entry(Operation.WRITE)),
        "w": AclBinding(ALL_TOPICS, entry(Operation.READ, DENY)),
        "g": AclBinding(ResourcePattern(GROUP, "g"), entry(Operation.READ, principal="User:bob", host="10.0.0.1")),
    }
    index = index_of(*rules.values())
    assert set(index.bindings(wanted)) == {rules[each] for each in expected}
    assert {rule for rule in rules.values() if wanted.takes(rule)} == {rules[each] for each in expected}


def test_words_of_znodes_and_commands() -> None:
    for kind in (Operation, ResourceType, PatternType, PermissionType):
        for each in kind:
            assert from_name(kind, pascal_case(each)) is each
            assert from_name(kind, pascal_case(each).lower()) is each
    assert pascal_case(ResourceType.TRANSACTIONAL_ID) == "TransactionalId"
    with pytest.raises(ValueError, match="no Operation"):
        from_name(Operation, "Fly")


def test_a_filter_is_written_with_what_it_selects_by() -> None:
    assert str(AclFilter()) == "all ACLs"
    assert str(AclFilter(ResourceType.TOPIC, "orders")) == "ACLs with resource type Topic, name orders"
    whole = AclFilter(
        ResourceType.GROUP, "g", PatternType.LITERAL, "User:ann", "*", Operation.READ, PermissionType.ALLOW
    )
    assert str(whole) == (
        "ACLs with principal User:ann, host *, operation Read, permission Allow, resource type Group, name g, pattern Literal"
    )

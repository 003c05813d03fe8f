"""ACLs as plain values, by the names that Kafka's tools print."""

from __future__ import annotations

from typing import Any

from kafkalite.security.acl import AclBinding, pascal_case


def acl_row(binding: AclBinding) -> dict[str, Any]:
    """Return the ACL as resource_type, name, pattern, principal, host, operation, permission."""
    resource, entry = binding
    return {
        "resource_type": pascal_case(resource.type),
        "name": resource.name,
        "pattern": pascal_case(resource.pattern),
        "principal": entry.principal,
        "host": entry.host,
        "operation": pascal_case(entry.operation),
        "permission": pascal_case(entry.permission),
    }

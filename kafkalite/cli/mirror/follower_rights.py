"""Who may follow the mirror by a certificate: its owner is a super user of the target, or the target's ACLs allow it ClusterAction, as a
broker of the target decides of the same Fetch. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from kafkalite.security.acl import CLUSTER_NAME, AclBinding, Operation, ResourceType
from kafkalite.security.acl_index import AclIndex
from kafkalite.security.principal import USER, KafkaPrincipal, principals_in
from kafkalite.security.principal_mapping import PrincipalMapping
from kafkalite.security.tls import peer_name


class FollowerRights:
    """The target's ACLs as they were read last, its super users, and how it names the owners of certificates."""

    def __init__(self, mapping_rules: str, super_users: str, allows_if_none: str = "") -> None:
        """Take `ssl.principal.mapping.rules`, `super.users` and `allow.everyone.if.no.acl.found` of the target's brokers.

        Raises ValueError.
        """
        if (allows := allows_if_none.strip().lower()) not in ("", "true", "false"):
            raise ValueError(f"allow.everyone.if.no.acl.found has to be true or false, not {allows_if_none!r}")
        self._allows_if_none = allows == "true"
        self._mapping = PrincipalMapping(mapping_rules)
        self._super_users = principals_in(super_users)
        self._acls = AclIndex()
        self._has_authorizer = True
        self._unread = ""

    def replace_acls(self, acls: Iterable[AclBinding] | None) -> None:
        """Take the target's ACLs, None for a target without an authorizer."""
        self._unread = ""
        self._has_authorizer = acls is not None
        found: dict[object, list[AclBinding]] = {}
        for each in acls or ():
            found.setdefault(each.resource, []).append(each)
        self._acls = AclIndex()
        for bindings in found.values():
            self._acls.replace(bindings[0].resource, [each.entry for each in bindings])

    def note_unread(self, problem: str) -> None:
        """Note why the target's ACLs could not be read again, until they are."""
        self._unread = problem

    def describe_problems(self) -> list[str]:
        """Return why the ACLs may not be those that the target has now."""
        return (
            [f"the target's ACLs could not be read again, and count as before: {self._unread}"] if self._unread else []
        )

    def recognize(self, certificate: bytes | None, host: str) -> Callable[[], str]:
        """Return the function that says why the owner of a verified certificate (DER) may not follow from an address now.

        It returns an empty text if the owner may.
        """
        if not certificate:
            return partial(str, f"{host} shows no certificate")  # whatever ACLs allow everybody: brokers have one
        try:
            principal = KafkaPrincipal(USER, self._mapping.name_of(peer_name(certificate)))
        except ValueError as problem:
            return partial(str, f"a certificate of {host} has no principal: {problem}")
        return partial(self._find_refusal, principal, host)

    def _find_refusal(self, principal: KafkaPrincipal, host: str) -> str:
        if principal in self._super_users:
            return ""
        if not self._has_authorizer:
            return ""
        what = Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        if self._acls.allows(str(principal), host, *what, if_none=self._allows_if_none):
            return ""
        lacks = "super.users of --listen-config does not name it, and no ACL of the target allows it ClusterAction"
        return f"{principal} of {host} is no broker of the target: {lacks}"

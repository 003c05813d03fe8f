"""Users whose SCRAM credentials have to be set by hand are named, in both directions. Pure."""

from __future__ import annotations

from kafkalite.cli.mirror.administered.scram_users import tell_changes, tell_missing

A, B = {"SCRAM-SHA-256": 4096}, {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}


def test_users_that_a_side_lacks_are_named_with_what_is_missing() -> None:
    assert tell_missing({"u": A}, {"u": B, "v": A}, "target") == []
    (told,) = tell_missing({"all": B, "some": B, "none": A}, {"some": A, "none": A}, "target")
    assert told.startswith(
        "set the passwords of all, some (SCRAM-SHA-512) in the target: SCRAM credentials cannot be copied"
    )


def test_users_that_were_made_changed_or_deleted_in_the_target_are_named() -> None:
    more = {"SCRAM-SHA-256": 8192}
    then = {"changed": A, "same": A, "deleted": A}
    notes = tell_changes(then, {"changed": more, "same": A, "new": A}, {"changed": A, "same": A, "deleted": A})
    assert [each.split(":")[0] for each in notes] == [
        "set the passwords of new in the source",
        "set the passwords of changed in the source again",
        "delete the SCRAM credentials of deleted in the source",
        "set the passwords of same in the source, if they were changed in the target",
    ]
    assert tell_changes(then, {"changed": more}, {"changed": more})[0].startswith(
        "set the passwords of changed in the source, if"
    )
    assert tell_changes({}, {}, {"own": A}) == []
    many = {f"u{each:03}": A for each in range(30)}
    assert "u019 and 10 others in the source, if" in tell_changes(many, many, many)[0]

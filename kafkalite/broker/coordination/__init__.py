"""Connects group and transaction coordinators with this broker: roles, markers, verification, producer ids, proof of leadership.

The coordinators' own rules are in `kafkalite.coordinators`. Handlers use every module but `coordinators`, which follows the roles.
"""

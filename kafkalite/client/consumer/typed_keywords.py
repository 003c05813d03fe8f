"""Keyword arguments of consumers whose deserializers are functions: what these make is the type of keys and values (PEP 692)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Required, TypeVar

from kafkalite.client.consumer.options import UntypedConsumerKeywords
from kafkalite.client.serializers import NamedFormat

KT = TypeVar("KT")
VT = TypeVar("VT")


class TypedValues(UntypedConsumerKeywords, Generic[VT], total=False):
    """`ConsumerKeywords` with a function that makes values."""

    key_deserializer: NamedFormat
    value_deserializer: Required[Callable[[bytes], VT]]


class TypedKeys(UntypedConsumerKeywords, Generic[KT], total=False):
    """`ConsumerKeywords` with a function that makes keys."""

    key_deserializer: Required[Callable[[bytes], KT]]
    value_deserializer: NamedFormat


class TypedBoth(UntypedConsumerKeywords, Generic[KT, VT], total=False):
    """`ConsumerKeywords` with functions that make keys and values."""

    key_deserializer: Required[Callable[[bytes], KT]]
    value_deserializer: Required[Callable[[bytes], VT]]

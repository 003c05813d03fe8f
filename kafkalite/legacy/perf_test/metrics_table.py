"""The table of metrics that the performance tools print with `--print-metrics`."""

from __future__ import annotations

from collections.abc import Mapping


def print_metrics(group: str, client_id: str, values: Mapping[str, float]) -> None:
    """Print a line for each metric of our client, in the form of Kafka's own metrics."""
    rows = {f"{group}:{name.replace('_', '-')}:{{client-id={client_id}}}": value for name, value in values.items()}
    width = max([len("Metric Name"), *(len(each) for each in rows)])
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(rows.items()):
        print(f"{name:<{width}} : {value:.3f}")

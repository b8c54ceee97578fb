"""Amazon's schema of the Embedded Metric Format, written from its specification.

Source: Amazon CloudWatch user guide, "Specification: Embedded metric format", with its limits: 30
dimensions, 100 metrics, 100 values of one metric, 1 MB for a document.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr, TypeAdapter

Reference = Annotated[StrictStr, Field(min_length=1, max_length=250)]
Number = StrictInt | StrictFloat
Target = Number | Annotated[list[Number], Field(min_length=1, max_length=100)]

MOST_BYTES = 1_000_000


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class MetricDefinition(_Strict):
    """One metric."""

    Name: StrictStr = Field(min_length=1, max_length=1024)
    Unit: Literal["Seconds", "Milliseconds", "Count", "Percent", "Bytes", "Count/Second", "None"]


class MetricDirective(_Strict):
    """What CloudWatch is to take out of the document."""

    Namespace: StrictStr = Field(min_length=1, max_length=1024)
    Dimensions: list[Annotated[list[Reference], Field(max_length=30)]] = Field(min_length=1)
    Metrics: list[MetricDefinition] = Field(min_length=1, max_length=100)


class Metadata(_Strict):
    """The member `_aws`. `Timestamp`: ms since 1970."""

    Timestamp: StrictInt = Field(ge=0)
    CloudWatchMetrics: list[MetricDirective] = Field(min_length=1)


_TARGET: TypeAdapter[Number | list[Number]] = TypeAdapter(Target)


def checked(line: str) -> tuple[Metadata, dict[str, Any]]:
    """The metadata and the members of one document. Raises ValueError where it breaks the rules."""
    assert "\n" not in line
    assert len(line.encode()) < MOST_BYTES
    root = json.loads(line)
    metadata = Metadata.model_validate(root.pop("_aws"))
    for directive in metadata.CloudWatchMetrics:
        for metric in directive.Metrics:
            _TARGET.validate_python(root[metric.Name])
        for dimensions in directive.Dimensions:
            for name in dimensions:
                value = root[name]
                assert isinstance(value, str), name
                assert 1 <= len(value) <= 1024, name
                assert value.isascii(), name
    return metadata, root

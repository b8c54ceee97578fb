"""What people see of callflow, and who may: the board, its users, metrics, records that last."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class PeopleSettings(BaseModel):
    """The settings of what is for people; see `Settings`, of which they are a part."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

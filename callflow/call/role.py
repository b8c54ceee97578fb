"""What people may do, by their role."""

from __future__ import annotations

from enum import StrEnum


class Deed(StrEnum):
    """What somebody wants to do."""

    LOOK = "look"
    """See the board: which calls there are and how each stands."""
    READ = "read"
    """Read one call, with every word that was said in it. Each time is audited."""
    ACT = "act"
    """Do something in a call: say, note, take over, end."""
    MANAGE = "manage"
    """See who signed in and who read what."""


class Role(StrEnum):
    """What somebody is to callflow; each may do all that the one before may."""

    VIEWER = "viewer"
    DISPATCHER = "dispatcher"
    ADMIN = "admin"

    def may(self, deed: Deed) -> bool:
        """True for a deed that this role may do."""
        return deed in _MAY[self]

    @classmethod
    def highest(cls, roles: set[Role]) -> Role | None:
        """The one that may do most; None for nobody's."""
        return max(roles, key=list(cls).index, default=None)


_LOOKS = frozenset({Deed.LOOK, Deed.READ})
_MAY = {
    Role.VIEWER: _LOOKS,
    Role.DISPATCHER: _LOOKS | {Deed.ACT},
    Role.ADMIN: frozenset(Deed),
}

"""Roles of board users, and what each of them may do."""

from __future__ import annotations

from enum import StrEnum


class Permission(StrEnum):
    """Something that a role may or may not do."""

    LOOK = "look"
    """See the board: which calls there are and how each stands."""
    READ = "read"
    """Read one call, with every word that was said in it. Each time is audited."""
    ACT = "act"
    """Do something in a call: say, note, take over, end."""
    MANAGE = "manage"
    """See who signed in and who read what."""


class Role(StrEnum):
    """Each role can do all that the one before it can."""

    VIEWER = "viewer"
    DISPATCHER = "dispatcher"
    ADMIN = "admin"

    def can(self, permission: Permission) -> bool:
        """True where this role has the permission."""
        return permission in _PERMISSIONS[self]

    @classmethod
    def highest(cls, roles: set[Role]) -> Role | None:
        """The role with the most permissions; None for an empty set."""
        return max(roles, key=list(cls).index, default=None)


_VIEWER = frozenset({Permission.LOOK, Permission.READ})
_PERMISSIONS = {
    Role.VIEWER: _VIEWER,
    Role.DISPATCHER: _VIEWER | {Permission.ACT},
    Role.ADMIN: frozenset(Permission),
}


def roles_by_claim(text: str) -> dict[str, Role]:
    """Which value of the role claim means which role, from CALLFLOW_OIDC_ROLES.

    Raises ValueError for what is no such list.
    """
    found = {}
    for part in text.split(","):
        value, equals, role = part.rpartition("=")
        if not equals or not value.strip() or role.strip() not in set(Role):
            raise ValueError(
                f"says {part.strip()!r}: write VALUE=ROLE with commas between them, where ROLE is "
                f"{', '.join(Role)}"
            )
        found[value.strip()] = Role(role.strip())
    return found

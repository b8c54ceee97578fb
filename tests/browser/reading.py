"""Reads the board as a person does: which row, and what a part of it says."""

from __future__ import annotations

from playwright.sync_api import Page


def row(sid: str) -> str:
    """Finds the row of a call."""
    return f"#calls tr[data-sid='{sid}']"


def text(page: Page, sid: str, part: str) -> str:
    """What a part of it says."""
    return page.locator(f"{row(sid)} [data-part='{part}']").inner_text()

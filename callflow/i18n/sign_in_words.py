"""What stands on the page on which people sign in: English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "title": ("Sign in", "登录"),
    "name": ("Name", "用户名"),
    "password": ("Password", "密码"),
    "sign_in": ("Sign in", "登录"),
    "company": ("Sign in with the company's account", "使用公司账号登录"),
    "or": ("or", "或"),
    "signed_out": ("You are signed out.", "您已退出登录。"),
    "wrong": (
        "Name or password is wrong. Check both and try again.",
        "用户名或密码错误，请检查后重试。",
    ),
    "too_many": (
        "There were too many tries. Wait {minutes} min and try again; who is signed in stays so.",
        "尝试次数过多。请等待 {minutes} 分钟后再试；已登录者不受影响。",
    ),
    "busy": (
        "Too many people sign in at this moment. Try again in a few seconds.",
        "当前登录人数过多，请几秒后重试。",
    ),
    "provider": (
        "The company's accounts cannot be reached now. Try again in a moment.",
        "暂时无法连接公司账号系统，请稍后重试。",
    ),
    "begin_again": (
        "This sign-in is too old, was used already, or was begun in another browser. Begin again.",
        "本次登录已过期、已使用，或在其他浏览器中发起。请重新登录。",
    ),
    "not_vouched": (
        "The company's accounts did not vouch for you. Begin again, or ask who looks after them.",
        "公司账号系统未能确认您的身份。请重新登录，或联系其管理员。",
    ),
    "no_role": (
        "Your account has no role here. Ask for one of: viewer, dispatcher, admin.",
        "您的账号在此没有角色。请申请以下角色之一：观察员、调度员、管理员。",
    ),
    "name_taken": (
        "Your account's name is also a local user's: the journal could not tell you apart.",
        "您的账号名与本地用户重名，记录中将无法区分。",
    ),
}


def words(language: str) -> dict[str, str]:
    """All of them in `language`, `en` or `zh`."""
    column = 1 if language == "zh" else 0
    return {name: pair[column] for name, pair in _WORDS.items()}

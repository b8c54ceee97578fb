"""What people in lifts say, for load: a few calls in each language that callflow speaks."""

from __future__ import annotations

from typing import Final

from callflow.call.language_tag import primary_language

LINES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "en": (
        (
            "hello the lift has stopped and the doors won't open",
            "yes I'm inside and I'm on my own",
            "no I'm fine nobody is hurt",
            "no smoke nothing like that",
            "the display says four",
            "yes the lights are on",
        ),
        (
            "hi we're stuck between two floors",
            "there are three of us in here",
            "one of us is a bit nervous but we're all right",
            "no nothing",
            "it says lift B on the panel",
            "okay we'll wait",
        ),
    ),
    "es": (
        (
            "hola el ascensor se ha parado y la puerta no se abre",
            "sí estoy dentro y estoy solo",
            "no estoy bien no hay nadie herido",
            "no hay humo ni nada",
            "el indicador marca el tres",
            "sí las luces están encendidas",
        ),
    ),
    "zh": (
        (
            "你好电梯停了门打不开",
            "我在里面就我一个人",
            "没有受伤",
            "没有烟",
            "显示的是五楼",
            "灯还亮着",
        ),
    ),
}


def lines(language: str, number: int) -> tuple[str, ...]:
    """The lines of the `number`th caller; English where the language is not spoken here."""
    known = LINES.get(primary_language(language), LINES["en"])
    return known[number % len(known)]

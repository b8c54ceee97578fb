"""What kinds of calls are called on a narrow column: English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCENARIOS: Final[Mapping[str, tuple[str, str]]] = {
    "scenario.accidental_press": ("pressed by mistake", "误按"),
    "scenario.child_alone": ("child alone", "儿童独自被困"),
    "scenario.deaf_hoh_speech": ("cannot hear or speak", "听障或言障"),
    "scenario.door_malfunction": ("door fault", "门故障"),
    "scenario.earthquake": ("earthquake", "地震"),
    "scenario.entrapment_partial_opening": ("trapped, door partly open", "被困，门半开"),
    "scenario.entrapment_standard": ("trapped", "被困"),
    "scenario.equipment_fault": ("equipment fault", "设备故障"),
    "scenario.escalator_incident": ("escalator incident", "扶梯事故"),
    "scenario.eta_callback": ("asks for arrival time", "询问到达时间"),
    "scenario.fire_smoke": ("fire or smoke", "火或烟"),
    "scenario.forcing_doors": ("forcing the doors", "强行扒门"),
    "scenario.language_barrier": ("language barrier", "语言不通"),
    "scenario.limb_or_clothing_trapped": ("limb or clothing caught", "肢体或衣物被夹"),
    "scenario.line_noise_unintelligible": ("line not understood", "听不清"),
    "scenario.maintenance_worker": ("maintenance worker", "维保人员"),
    "scenario.medical": ("medical", "医疗"),
    "scenario.overspeed_freefall": ("too fast or falling", "超速或坠落"),
    "scenario.panic_claustrophobia": ("panic", "恐慌"),
    "scenario.power_failure": ("power failure", "停电"),
    "scenario.self_released": ("already out", "已自行脱困"),
    "scenario.silent_open_line": ("silent open line", "线路无声"),
    "scenario.test_call_automatic": ("automatic test", "自动测试"),
    "scenario.test_call_engineer": ("engineer's test", "工程师测试"),
    "scenario.third_party_reporter": ("reported from outside", "他人代报"),
    "scenario.vandalism_prank": ("vandalism or prank", "破坏或恶作剧"),
    "scenario.violence_threat": ("violence or threat", "暴力或威胁"),
    "scenario.vulnerable_person": ("vulnerable person", "弱势人员"),
    "scenario.water_flood": ("water", "进水"),
}

"""How quickly the planner page is answered: CPU milliseconds per change, and as a multiple of the planning alone."""

from __future__ import annotations

from typing import Any

from benchmarks.dense import seconds
from benchmarks.show import print_rows
from residua.cli.planning import make_plan
from residua.cli.spec import spec_of
from residua.demo_data import demo_folder
from residua.ui.documents import demo
from residua.ui.worker import answer

PLACE = demo_folder() / "adult.toml"
OPTIONS = {"people": "48,842"}  # so that tables are drawn, and their cells judged


def cases() -> dict[str, dict[str, Any]]:
    adult = dict(demo().content)
    wishes = {key: value for key, value in adult.items() if key != "objective"}
    wishes["workload"] = [{"ways": [0, 1, 2], "stddev": 10}]
    wide = {"domain": {f"a{i}": {"size": 10} for i in range(100)}, "workload": [{"ways": [0, 1, 2]}]}
    return {
        "Adult, 92 tables": {"content": adult},
        "the same with wishes, and what they cost": {"content": wishes},
        "the same beside three kept plans": {"content": adult, "beside": [adult] * 3},
        "100 attributes, 5,051 tables": {"content": wide | {"privacy": {"rho": 0.5}}},
    }


def main() -> None:
    rows = []
    for name, case in cases().items():
        request = {"task": "plan", "folder": str(PLACE.parent), "name": PLACE.name, "options": OPTIONS, **case}
        told = answer(request)
        assert "error" not in told, told
        alone = seconds(lambda case=case: make_plan(spec_of(case["content"], PLACE)), 0.2)
        whole = seconds(lambda request=request: answer(request), 0.2)
        rows.append([name, f"{1000 * alone:.1f}", f"{1000 * whole:.1f}", f"{whole / alone:.1f}×"])
    print_rows(
        "A change on the planner page", ["what", "reading and planning, CPU ms", "answer, CPU ms", "ratio"], rows
    )


if __name__ == "__main__":
    main()

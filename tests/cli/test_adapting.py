"""`residua session adapt`, and specifications that plan for estimates."""

import residua as rs
from tests.cli.command import inside
from tests.cli.session_command import SPEC, rho, run, with_plans


def test_adapting_spends_the_plans_budget_writes_both_folders_and_costs_nothing_again(tmp_path):
    folder = with_plans(tmp_path)
    run(folder, "open")
    said = run(folder, "adapt", "fine", "--out", "out", "--estimates", "est")
    assert "Step look" in said
    assert "Step rest" in said
    assert "biased" in said
    assert 0.4999 < rho(folder) <= 0.5
    assert rs.Estimated.load(folder / "est").total > 0
    shown = inside("table", "est", "sex", "age", cwd=folder)
    assert "root mean square error about" in shown.err
    run(folder, "adapt", "fine", "--out", "again")
    assert rho(folder) <= 0.5
    assert "exists" in run(folder, "adapt", "fine", "--out", "out", refused=True)
    assert "no plan" in run(folder, "adapt", "other", "--out", "new", refused=True)
    assert "marginals" in run(folder, "adapt", "young", "--out", "new", refused=True)
    assert "look=" in run(folder, "adapt", "fine", "--out", "new", "--look", "1.5", refused=True)
    assert rho(folder) <= 0.5


def test_an_objective_for_estimates_plans_as_plan_estimates_does(tmp_path):
    folder = with_plans(tmp_path)
    workload = '[objective]\nminimise = "estimates"\nrecords = 500\n[[workload]]\nways = [1, 2]\n'
    (folder / "one.toml").write_text(SPEC.partition("[[plan")[0] + workload)
    assert inside("plan", "one.toml", "--save", "p.json", cwd=folder).code == 0
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 3)})
    best = rs.plan_estimates(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.5), records=500)
    assert rs.Plan.load(folder / "p.json").to_body()["precisions"] == best.to_body()["precisions"]
    for more in ("p = 2\n", "tolerance = 0.1\n"):
        (folder / "one.toml").write_text(SPEC.partition("[[plan")[0] + workload.replace("[[", more + "[["))
        assert "remove them" in inside("plan", "one.toml", cwd=folder).err
    (folder / "one.toml").write_text(SPEC.partition("[[plan")[0] + workload.replace('"estimates"', '"max"'))
    assert 'records belongs to minimise = "estimates"' in inside("plan", "one.toml", cwd=folder).err

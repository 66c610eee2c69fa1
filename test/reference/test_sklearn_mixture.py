"""Mixtures fitted to the wine data by scikit-learn, live, and by compiled
programs from the same start: the same log-likelihood at each iteration and the
same parameters at the end.

CI compares with wine.json, which make_wine.py recorded
(test/compiler/Estimation/WineTest.cpp). Differences allowed, fp64: each
iteration's log-likelihood 1e-9 relative; parameters 1e-9 relative, covariances
relative to the deviations of their two columns, as one may be near zero.
"""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from mixle_testing import compile_program, load_weights, run_tool, save_weights, write_json

MAKER = Path(__file__).parent.parent / "golden" / "em" / "make_wine.py"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(not importlib.util.find_spec("sklearn"),
                       reason="not installed: sklearn (tools/test --peers)"),
]


@pytest.fixture(scope="module")
def wine():
    """make_wine.py: the start, and scikit-learn's fit from there."""
    spec = importlib.util.spec_from_file_location("make_wine", MAKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_replicate=2,tp=3", "dp_shard=3"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_wine(folder, wine, covariance, plan):
    rows = wine.load_wine().data
    theirs = wine.fit(rows, covariance)
    components, dim = len(wine.START_ROWS), rows.shape[1]
    program = compile_program(
        folder / f"wine-{covariance}-{plan}.fbs", "--plan", plan, "--estimator",
        write_json(folder / "wine.json", {
            "family": "gaussian_mixture", "dim": dim, "components": components,
            "covariance": covariance,
            "regularization": {"kind": "absolute", "value": wine.REGULARIZATION}}))
    np.save(folder / "rows.npy", rows)
    variance = rows.var(axis=0)
    start = np.diag(variance) if covariance == "full" else variance
    receipts, saved = folder / "wine.jsonl", folder / "wine.safetensors"
    run_tool(
        "mixle-run", program, "-q", "--data", folder / "rows.npy",
        "--weights", save_weights(folder / "start.safetensors", {
            "weights": np.full(components, 1 / components), "means": rows[wine.START_ROWS],
            "covariances": np.stack([start] * components)}),
        "--iterations", wine.ITERATIONS, "--receipts", receipts, "--save", saved)

    trace = [json.loads(line)["log_likelihood"] for line in receipts.read_text().splitlines()]
    np.testing.assert_allclose(trace, theirs["trace"], rtol=1e-9)
    # The fit is not at its end from the start on.
    assert trace[-1] > trace[0] + 100
    found = load_weights(saved)
    np.testing.assert_allclose(found["weights"], theirs["weights"], rtol=1e-9)
    np.testing.assert_allclose(found["means"], theirs["means"], rtol=1e-9)
    expected = np.array(theirs["covariances"])
    if covariance == "full":
        deviations = np.sqrt(np.einsum("kii->ki", expected))
        scale = deviations[:, :, None] * deviations[:, None, :]
    else:
        scale = expected
    assert np.abs((found["covariances"] - expected) / scale).max() < 1e-9

#!/usr/bin/env python3
"""Makes wine.json: what scikit-learn's GaussianMixture does to the wine data from a
fixed start. Needs scikit-learn; `make_wine.py --check wine.json` compares a new
result with a file instead (1e-9 relative).
"""

import json
import math
import sys

import numpy
import sklearn
from sklearn.datasets import load_wine
from sklearn.mixture import GaussianMixture
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky

ITERATIONS = 20
START_ROWS = [0, 70, 140]
REGULARIZATION = 1e-6


def fit(rows, covariance):
    model = GaussianMixture(
        n_components=len(START_ROWS), covariance_type=covariance,
        reg_covar=REGULARIZATION)
    variance = rows.var(axis=0)
    start = numpy.diag(variance) if covariance == "full" else variance
    model.weights_ = numpy.full(len(START_ROWS), 1 / len(START_ROWS))
    model.means_ = rows[START_ROWS]
    model.covariances_ = numpy.stack([start] * len(START_ROWS))
    model.precisions_cholesky_ = _compute_precision_cholesky(
        model.covariances_, covariance)
    trace = []
    for _ in range(ITERATIONS):
        mean, responsibilities = model._e_step(rows)
        trace.append(mean * len(rows))
        model._m_step(rows, responsibilities)
    return {
        "trace": trace,
        "weights": model.weights_.tolist(),
        "means": model.means_.tolist(),
        "covariances": model.covariances_.tolist(),
    }


def flatten(value):
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in flatten(item)]
    if isinstance(value, dict):
        return [x for key in sorted(value) for x in flatten(value[key])]
    return [value] if isinstance(value, (int, float)) else []


def main():
    rows = load_wine().data
    result = {
        "_meta": {"scikit-learn": sklearn.__version__,
                  "numpy": numpy.__version__},
        "data": rows.tolist(),
        "start_rows": START_ROWS,
        "regularization": REGULARIZATION,
        "variances": rows.var(axis=0).tolist(),
        "full": fit(rows, "full"),
        "diag": fit(rows, "diag"),
    }
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        with open(sys.argv[2]) as file:
            known = json.load(file)
        for key in ("data", "variances", "full", "diag"):
            a, b = flatten(known[key]), flatten(result[key])
            if len(a) != len(b) or not all(
                    math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12)
                    for x, y in zip(a, b)):
                sys.exit(f"make_wine.py: '{key}' differs from {sys.argv[2]}")
        print("wine.json agrees with scikit-learn", sklearn.__version__)
        return
    json.dump(result, sys.stdout, indent=None, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()

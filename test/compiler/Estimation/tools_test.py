#!/usr/bin/env python3
"""mixle-compile and mixle-run on an estimator: files, plans, chunks, MPI, bad input.

  tools_test.py MIXLE_COMPILE MIXLE_RUN WINE_JSON [MPIRUN]
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

COMPILE, RUN, WINE = sys.argv[1:4]
MPIRUN = sys.argv[4] if len(sys.argv) > 4 else ""
SPEC = {"family": "gaussian_mixture", "dim": 13, "components": 3,
        "covariance": "diag",
        "regularization": {"kind": "absolute", "value": 1e-6}}


def npy(path, shape, values):
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }" % (
        ", ".join(map(str, shape)))
    text += " " * ((64 - (10 + len(text) + 1) % 64) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)))
        file.write(text.encode() + struct.pack("<%dd" % len(values), *values))


def tensors(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (entry["shape"], data[8 + length:][slice(*entry["data_offsets"])])
            for name, entry in header.items()}


class Estimators(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        os.chdir(cls.folder.name)
        with open(WINE) as file:
            cls.wine = json.load(file)
        rows = cls.wine["data"]
        with open("wine.csv", "w") as file:
            file.writelines(",".join(map(repr, row)) + "\n" for row in rows)
        npy("wine.npy", (178, 13), [x for row in rows for x in row])
        weights = random.Random(5)
        npy("w.npy", (178,), [weights.random() for _ in rows])
        with open("spec.json", "w") as file:
            json.dump(SPEC, file)
        cls.compile("dp_replicate=1", "one.fbs")
        cls.compile("dp_replicate=2,tp=2", "four.fbs")

    @classmethod
    def tearDownClass(cls):
        os.chdir("/")
        cls.folder.cleanup()

    @staticmethod
    def compile(plan, output):
        subprocess.run([COMPILE, "--estimator", "spec.json", "--plan", plan,
                        "-o", output], check=True)

    def run_tool(self, *arguments, prefix=()):
        return subprocess.run([*prefix, RUN, *arguments, "--quiet"], text=True,
                              capture_output=True, timeout=120)

    def fit(self, *arguments, prefix=()):
        result = self.run_tool(*arguments, prefix=prefix)
        self.assertEqual(result.returncode, 0, result.stderr)
        return dict(line.split(": ", 1) for line in result.stdout.splitlines())

    def refuse(self, message, *arguments, status=1):
        result = self.run_tool(*arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn(message, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_plans_files_and_chunks_give_the_same_bits(self):
        one = self.fit("one.fbs", "--data", "wine.npy", "--row-weights", "w.npy",
                       "--iterations", "5", "--receipts", "one.jsonl", "--save",
                       "one.safetensors")
        self.assertEqual(one["rows"], "178")
        with open("one.jsonl") as file:
            receipts = [json.loads(line) for line in file]
        self.assertEqual([r["iteration"] for r in receipts], [1, 2, 3, 4, 5])
        self.assertEqual(set(receipts[0]), {"iteration", "rows", "log_likelihood",
                                            "state_digest"})
        self.assertEqual(receipts[-1]["state_digest"], one["state_digest"])
        for data, chunk in [("wine.csv", "1"), ("wine.npy", "50")]:
            four = self.fit("four.fbs", "--data", data, "--row-weights", "w.npy",
                            "--iterations", "5", "--chunk-rows", chunk,
                            "--receipts", "four.jsonl", "--save",
                            "four.safetensors")
            self.assertEqual(one, four)
            with open("one.jsonl") as a, open("four.jsonl") as b:
                self.assertEqual(a.read(), b.read())
            self.assertEqual(tensors("one.safetensors"),
                             tensors("four.safetensors"))
        self.assertEqual(
            {name: shape for name, (shape, _) in tensors("one.safetensors").items()},
            {"weights": [3], "means": [3, 13], "covariances": [3, 13]})

    def test_a_fit_goes_on_from_its_file(self):
        whole = self.fit("one.fbs", "--data", "wine.csv", "--iterations", "6")
        self.fit("one.fbs", "--data", "wine.csv", "--iterations", "2", "--save",
                 "half.safetensors")
        rest = self.fit("four.fbs", "--data", "wine.csv", "--iterations", "4",
                        "--weights", "half.safetensors")
        self.assertEqual(whole["state_digest"], rest["state_digest"])

    def test_tolerance_ends_a_fit(self):
        ended = self.fit("one.fbs", "--data", "wine.csv", "--iterations", "500",
                         "--tolerance", "1e-3")
        self.assertEqual(ended["converged"], "yes")
        self.assertLess(int(ended["iterations"]), 100)
        other = self.fit("one.fbs", "--data", "wine.csv", "--iterations", "2",
                         "--seed", "1")
        self.assertEqual(other["converged"], "no")

    @unittest.skipUnless(MPIRUN, "MPI was not found")
    def test_mpi_ranks_give_the_same_bits(self):
        prefix = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-n", "4"]
        threads = self.fit("four.fbs", "--data", "wine.csv", "--iterations", "3")
        mpi = self.fit("four.fbs", "--data", "wine.csv", "--iterations", "3",
                       prefix=prefix)
        self.assertEqual(threads, mpi)

    def test_bad_input_is_one_line(self):
        self.refuse("give --data", "one.fbs")
        self.refuse("absent.csv", "one.fbs", "--data", "absent.csv")
        for name, text, message in [
                ("empty.csv", "", "empty.csv"),
                ("narrow.csv", "1,2\n", "2 column(s); the estimator's dim is 13"),
                ("nan.csv", ",".join(["nan"] * 13) + "\n", "row 0, column 0")]:
            with open(name, "w") as file:
                file.write(text)
            self.refuse(message, "one.fbs", "--data", name)
        npy("negative.npy", (178,), [-1.0] * 178)
        npy("zero.npy", (178,), [0.0] * 178)
        npy("short.npy", (3,), [1.0] * 3)
        for name, message in [("negative.npy", "weight of row 0"),
                              ("zero.npy", "no row has a positive weight"),
                              ("short.npy", "3 weights for 178 rows")]:
            self.refuse(message, "one.fbs", "--data", "wine.csv",
                        "--row-weights", name)
        self.refuse("expected at least 1", "one.fbs", "--data", "wine.csv",
                    "--chunk-rows", "0", status=2)
        self.refuse("cannot write", "one.fbs", "--data", "wine.csv", "--save",
                    "no/such/folder.safetensors")
        with open("same.csv", "w") as file:
            file.write((",".join(["2"] * 13) + "\n") * 4)
        with open("singular.json", "w") as file:
            json.dump({**SPEC, "regularization": {"kind": "absolute", "value": 0}},
                      file)
        subprocess.run([COMPILE, "--estimator", "singular.json", "--plan", "tp=3",
                        "-o", "singular.fbs"], check=True)
        self.refuse("component 0 is not positive definite", "singular.fbs",
                    "--data", "same.csv", "--save", "singular.safetensors")
        self.assertFalse(os.path.exists("singular.safetensors"))

    def test_rows_that_no_component_reaches(self):
        with open("pair.json", "w") as file:
            json.dump({**SPEC, "dim": 1, "components": 2}, file)
        subprocess.run([COMPILE, "--estimator", "pair.json", "--plan", "tp=2", "-o",
                        "pair.fbs"], check=True)
        with open("line.csv", "w") as file:
            file.writelines(f"{row}\n" for row in (1, 2, 3, 100))
        self.fit("pair.fbs", "--data", "line.csv", "--iterations", "1", "--save",
                 "pair.safetensors")
        with open("pair.safetensors", "rb") as file:
            data = file.read()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:start])

        def put(means):
            begin = start + header["means"]["data_offsets"][0]
            with open("far.safetensors", "wb") as file:
                file.write(data[:begin] + struct.pack("<2d", *means) + data[begin + 16:])

        # Far, but with a density that has a logarithm.
        put([1e4, 2e4])
        self.assertNotIn("inf", self.fit("pair.fbs", "--data", "line.csv", "--iterations", "1",
                                         "--weights", "far.safetensors")["log_likelihood"])
        put([1e200, -1e200])
        self.refuse("the log-likelihood is -inf, as no component gives some row a density above "
                    "zero", "pair.fbs", "--data", "line.csv", "--weights", "far.safetensors",
                    "--save", "unsaved.safetensors", "--receipts", "unsaved.jsonl")
        self.assertEqual([name for name in os.listdir() if name.startswith("unsaved")],
                         ["unsaved.jsonl.partial"])

    def test_huge_numbers_are_short_in_messages(self):
        npy("huge.npy", (178,), [1e300] * 178)
        self.refuse("row weights up to 1e+300 are too large", "one.fbs", "--data", "wine.csv",
                    "--row-weights", "huge.npy")
        npy("far.npy", (2, 13), [1e300] * 13 + [-1e300] * 13)
        self.refuse("has values up to 2e+300 apart", "one.fbs", "--data", "far.npy")

    def test_options_that_do_nothing_are_refused(self):
        fit = ["one.fbs", "--data", "wine.csv"]
        for option in (["--text", "x"], ["--tokens", "x"], ["--batches", "x"], ["--evaluate"],
                       ["--steps", "3"], ["--generate", "3"],
                       ["--inject-failure", "rank=0,step=1,kind=error"]):
            self.refuse(option[0] + " has no effect on program 'one.fbs', which is an "
                        "estimation program: it is an option of training; leave it out",
                        *fit, *option, status=2)
        # These need another option of training, which is refused then.
        for option in (["--batches", "x", "--labels", "x"], ["--generate", "3", "--prompt", "x"],
                       ["--generate", "3", "--temperature", "1"]):
            self.refuse("which is an estimation program", *fit, *option, status=2)
        self.refuse("--digest-every has no effect", *fit, "--receipts", "x.jsonl",
                    "--digest-every", "2", status=2)
        self.fit(*fit, "--iterations", "1", "--save", "start.safetensors")
        self.refuse("--seed has no effect", *fit, "--weights", "start.safetensors",
                    "--seed", "1", status=2)
        self.assertFalse(os.path.exists("x.jsonl"))

    def test_a_full_disk_is_one_line(self):
        fit = ["one.fbs", "--data", "wine.csv", "--iterations", "2"]
        self.refuse("/dev/full", *fit, "--save", "/dev/full")
        self.refuse("/dev/full", *fit, "--receipts", "/dev/full")

    def test_bad_specifications_are_one_line(self):
        for text, message in [("{}", "family is missing"),
                              ("{", "bad.json"),
                              ('{"family": "gaussian_mixture", "dim": 1, '
                               '"components": 0}', "components is 0")]:
            with open("bad.json", "w") as file:
                file.write(text)
            result = subprocess.run([COMPILE, "--estimator", "bad.json", "-o",
                                     "bad.fbs"], text=True, capture_output=True)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)
            self.assertFalse(os.path.exists("bad.fbs"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""Known ways to get distributed training wrong, each as a tiny program.

A case is a program in the mixle dialect with one entry, @loss; its inputs come
through token ids (rows of constant tables) and labels, its gradients are read
back through one step of SGD without momentum, which moves a parameter by
rate times the mean gradient. Expected numbers are those of the case, computed
by hand or in float64; test names carry the case's number.
"""

import numpy as np
import pytest

from mixle_testing import (
    compile_program, gpt2_config, load_weights, pseudo_text, run_tool, save_npy,
    save_weights, train,
)

EXACT = {"f32": 1e-6, "f64": 1e-12}
SGD = "sgd,momentum=0,weight_decay=0,lr="


class Model:
    """A program under construction. Every token has a term; the loss is the sum
    of the terms, and its mean that over the labels that count."""

    def __init__(self, sequence, vocabulary, dtype="f32"):
        self.sequence, self.vocabulary, self.dtype = sequence, vocabulary, dtype
        self.parameters, self.arguments, self.body = [], [], []

    def tensor(self, *shape, rows=False, dtype=None):
        sizes = (["?", str(self.sequence)] if rows else []) + [str(s) for s in shape]
        return f"tensor<{'x'.join(sizes + [dtype or self.dtype])}>"

    def parameter(self, name, shape, factors=None, decay=True, trained=True):
        kind = self.tensor(*shape)
        named = ", ".join(f'"{f}"' for f in factors or [""] * len(shape))
        self.parameters.append(
            f"mixle.parameter @{name} : {kind} factors = [{named}] file_shape = {list(shape)} "
            'init = {kind = "constant", value = 0.0 : f64} '
            f"{{decay = {str(decay).lower()}, trained = {str(trained).lower()}}}")
        self.arguments.append(
            f'%{name}: {kind} {{mixle.role = "parameter", mixle.of = @{name}}}')

    def add(self, line):
        self.body.append(line)

    def table(self, name, values):
        """A constant table, whole on every rank."""
        values = np.asarray(values, np.float64)
        self.add(f"%{name} = mixle.constant dense<{values.tolist()}> : "
                 f"{self.tensor(*values.shape)}")

    def split_table(self, name, width):
        """A table of one row that tp splits: a parameter that is not trained."""
        self.parameter(name, (1, width), ["", "ffn"], trained=False)

    def look_up(self, name, table, shape, ids="tokens"):
        """%name = rows of `table`, of the given whole shape."""
        self.add(f"%{name} = mixle.embedding %{table}, %{ids} : {self.tensor(*shape)}, "
                 f"{self.tensor(rows=True, dtype='i32')} -> "
                 f"{self.tensor(*shape[1:], rows=True)}")

    def product(self, name, lhs, width, rhs, outputs):
        """%name = %lhs [width] times %rhs [outputs, width]."""
        self.add(f"%{name} = mixle.dot_general %{lhs}, %{rhs} contract = [2] x [1] : "
                 f"{self.tensor(width, rows=True)}, {self.tensor(outputs, width)} -> "
                 f"{self.tensor(outputs, rows=True)}")

    def cross_entropy(self, name, logits, classes):
        self.add(f"%{name} = mixle.softmax_cross_entropy %{logits}, %labels : "
                 f"({self.tensor(classes, rows=True)}, {self.tensor(rows=True, dtype='i32')}) -> "
                 f"{self.tensor(rows=True)}")

    def binary(self, name, op, lhs, rhs, shape=()):
        self.add(f"%{name} = mixle.{op} %{lhs}, %{rhs} : {self.tensor(*shape, rows=True)}")

    def squeeze(self, name, value):
        self.add(f"%{name} = mixle.reshape %{value} : {self.tensor(1, rows=True)} -> "
                 f"{self.tensor(rows=True)}")

    def spread(self, name, value, shape, like):
        """A parameter repeated for every token."""
        dims = list(range(2, 2 + len(shape)))
        self.add(f"%{name} = mixle.broadcast %{value} like %{like} dims = {dims} : "
                 f"{self.tensor(*shape)}, {self.tensor(*shape, rows=True)} -> "
                 f"{self.tensor(*shape, rows=True)}")

    def masked(self, name, terms):
        """Terms without those whose label is -100."""
        ids, kind = self.tensor(rows=True, dtype="i32"), self.tensor(rows=True)
        flags = self.tensor(rows=True, dtype="i1")
        self.add("%ignored = mixle.constant dense<-100> : tensor<i32>")
        self.add(f"%ignoredLike = mixle.broadcast %ignored like %labels dims = [] : "
                 f"tensor<i32>, {ids} -> {ids}")
        self.add(f'%counts = mixle.compare "ne" %labels, %ignoredLike : {ids} -> {flags}')
        self.add(f"%zero = mixle.sub %{terms}, %{terms} : {kind}")
        self.add(f"%{name} = mixle.select %counts, %{terms}, %zero : {flags}, {kind}")

    def text(self, terms):
        ids, exact = self.tensor(rows=True, dtype="i32"), f"tensor<!mixle.exact<{self.dtype}>>"
        arguments = [
            f'%tokens: {ids} {{mixle.role = "tokens"}}',
            f'%labels: {ids} {{mixle.role = "labels"}}',
            f'%loss: {exact} {{mixle.role = "loss"}}',
            '%count: tensor<i64> {mixle.role = "count"}', *self.arguments]
        lines = [
            'mixle.program @case attributes {kind = "training", config = {'
            f"sequence = {self.sequence} : i64, vocabulary = {self.vocabulary} : i64}}}} {{",
            *self.parameters,
            f"mixle.entry @loss({', '.join(arguments)}) -> "
            f'({exact} {{mixle.role = "loss"}}, tensor<i64> {{mixle.role = "count"}}) {{',
            *self.body,
            f"%total = mixle.exact_sum %loss, %{terms} : ({exact}, {self.tensor(rows=True)}) "
            f"-> {exact}",
            f"%number = mixle.count_labels %count, %labels : (tensor<i64>, {ids}) -> tensor<i64>",
            f"mixle.return %total, %number : {exact}, tensor<i64>", "}", "}"]
        return "\n".join(lines) + "\n"


class Case:
    """A model with the term of a token, in a folder of its own."""

    def __init__(self, folder, name, model, terms):
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        self.model = model
        self.source = self.folder / "case.mlir"
        self.source.write_text(model.text(terms))

    def array(self, value):
        return np.asarray(value, np.float64 if self.model.dtype == "f64" else np.float32)

    def compile(self, batch, plan, *options):
        program = self.folder / f"{plan}.fbs"
        return compile_program(
            program, self.source, "--batch", batch, "--plan", plan, "--precision",
            "fp64" if self.model.dtype == "f64" else "fp32", *options)

    def data(self, tokens, labels):
        """Options for steps of rows: tokens [steps, rows, sequence]."""
        tokens = np.asarray(tokens)
        tokens = np.concatenate([tokens, tokens[..., :1]], axis=-1)
        return ["--batches", save_npy(self.folder / "tokens.npy", tokens),
                "--labels", save_npy(self.folder / "labels.npy", labels)]

    def step(self, plan, tokens, labels, weights, rate=1.0, options=(), optimizer=None):
        """Trains; the run and the parameters after it."""
        program = self.compile(np.asarray(tokens).shape[1], plan, "--optimizer",
                               optimizer or f"{SGD}{rate}", *options)
        start = save_weights(self.folder / "start.safetensors",
                             {k: self.array(v) for k, v in weights.items()})
        end = self.folder / "end.safetensors"
        run = train(program, *self.data(tokens, labels), "--weights", start, "--save", end)
        return run, load_weights(end)

    def gradients(self, plan, tokens, labels, weights, rate=1.0, options=()):
        """One step: the run, and the mean gradients as it applied them."""
        run, after = self.step(plan, tokens, labels, weights, rate, options)
        return run, {k: (np.asarray(v, np.float64) - after[k]) / rate
                     for k, v in weights.items()}

    def loss(self, plan, tokens, labels, weights):
        """The mean loss, by --evaluate."""
        program = self.compile(np.asarray(tokens).shape[1], plan)
        start = save_weights(self.folder / "start.safetensors",
                             {k: self.array(v) for k, v in weights.items()})
        result = run_tool("mixle-run", program, *self.data(tokens, labels), "--weights", start,
                          "--evaluate")
        return float(result.value("evaluation_loss"))


# Three classes of two features; tokens choose the features.
FEATURES = [[1, 0], [0, 1], [1, 1], [2, 0], [0, 0], [1, -1], [2, 1]]
CLASSES = [[0.1, -0.2], [0.3, 0.0], [-0.1, 0.4]]


def classifier(folder, name, sequence):
    model = Model(sequence, 8)
    model.parameter("w", (3, 2), ["vocabulary", ""])
    model.table("features", FEATURES)
    model.look_up("h", "features", (7, 2))
    model.product("logits", "h", 2, "w", 3)
    model.cross_entropy("terms", "logits", 3)
    return Case(folder, name, model, "terms")


@pytest.mark.parametrize(
    "plan", ["gradient_accumulation_steps=2", "microbatches=2", "dp_replicate=2", "dp_shard=2",
             "dp_replicate=2,tp=3"])
def test_b001_mean_over_tokens_not_over_microbatches(folder, plan):
    case = classifier(folder, "b001", 3)
    tokens, labels = [[[0, 1, 2], [3, 4, 4]]], [[[0, 1, 2], [1, -100, -100]]]
    run, gradients = case.gradients(plan, tokens, labels, {"w": CLASSES})
    assert run.losses[0] == pytest.approx(1.010616566, abs=1e-6)
    np.testing.assert_allclose(
        gradients["w"], [[0.053110286, 0.124583822], [-0.070050258, -0.080862235],
                         [0.016939972, -0.043721587]], atol=1e-6)


@pytest.mark.parametrize("plan", ["dp_replicate=2", "dp_shard=2", "dp_replicate=2,tp=3"])
def test_b003_a_rank_whose_labels_are_all_masked(folder, plan):
    case = classifier(folder, "b003", 5)
    tokens = [[[0, 1, 2, 5, 6], [2, 2, 2, 2, 2]]]
    labels = [[[0, 1, 2, 0, 1], [-100] * 5]]
    run, gradients = case.gradients(plan, tokens, labels, {"w": CLASSES})
    assert run.receipts[0]["global_tokens"] == 5
    assert run.receipts[0]["global_examples"] == 2
    assert run.losses[0] == pytest.approx(0.996829166, abs=1e-6)
    np.testing.assert_allclose(
        gradients["w"], [[-0.103429504, 0.267473876], [0.017155005, -0.256219464],
                         [0.086274499, -0.011254411]], atol=1e-6)


def test_b004_a_step_without_labels_is_refused(folder):
    case = classifier(folder, "b004", 3)
    tokens = [[[0, 1, 2], [3, 4, 4]]] * 2
    labels = [[[0, 1, 2], [1, 0, -100]], [[-100] * 3] * 2]
    program = case.compile(2, "dp_replicate=2,microbatches=2",
                           "--optimizer", "adam,lr=0.1,weight_decay=0.1")
    saved = case.folder / "b004.safetensors"
    result = run_tool("mixle-run", program, *case.data(tokens, labels), "--save", saved,
                      "-q", status=1)
    assert result.errors() == [
        "mixle-run: error: step 2 is not committed: no label of its window counts on any rank "
        "(all are -100); parameters and optimizer state are untouched"]
    assert not saved.exists()


@pytest.mark.parametrize("plan", ["dp_replicate=2", "dp_replicate=1", "dp_shard=2"])
def test_b007_masked_tokens_on_one_rank(folder, plan):
    """Token losses 9, 9, 9, 5 | 1, 2, 3, 6 over two data ranks; the first three
    are masked."""
    model = Model(4, 8)
    model.parameter("losses", (8, 1))
    model.look_up("picked", "losses", (8, 1))
    model.squeeze("raw", "picked")
    model.masked("terms", "raw")
    case = Case(folder, "b007", model, "terms")
    values = np.array([9, 9, 9, 5, 1, 2, 3, 6], float)[:, None]
    tokens = [[[0, 1, 2, 3], [4, 5, 6, 7]]]
    labels = [[[-100, -100, -100, 1], [1, 1, 1, 1]]]
    run, gradients = case.gradients(plan, tokens, labels, {"losses": values})
    assert run.losses[0] == pytest.approx(3.4, abs=1e-12)
    np.testing.assert_allclose(gradients["losses"][:, 0], [0, 0, 0] + [0.2] * 5, atol=1e-6)


@pytest.mark.parametrize("plan", ["tp=2", "tp=1", "tp=4", "dp_replicate=2,tp=2"])
def test_b008_vocabulary_that_tp_does_not_divide(folder, plan):
    model = Model(1, 5)
    model.parameter("e", (5, 1), ["vocabulary", ""])
    model.table("one", [[1.0]] * 5)
    model.look_up("h", "one", (5, 1))
    model.product("logits", "h", 1, "e", 5)
    model.cross_entropy("terms", "logits", 5)
    case = Case(folder, "b008", model, "terms")
    logits = np.array([0.5, 1.0, 1.5, 2.0, 2.5])
    run, gradients = case.gradients(plan, [[[0]]], [[[4]]], {"e": logits[:, None]})
    assert run.losses[0] == pytest.approx(0.847101646, abs=1e-6)
    expected = np.exp(logits) / np.exp(logits).sum() - (np.arange(5) == 4)
    np.testing.assert_allclose(gradients["e"][:, 0], expected, atol=1e-6)
    assert abs(gradients["e"].sum()) < 1e-6


@pytest.mark.parametrize("plan", ["tp=1", "tp=2", "tp=4"])
@pytest.mark.parametrize("label, loss, gradient",
                         [(3, 1000.0, [1, 0, 0, -1]), (2, 2000.0, [1, 0, -1, 0])])
def test_b010_log_of_an_underflowed_probability(folder, plan, label, loss, gradient):
    model = Model(1, 4)
    model.parameter("e", (4, 1), ["vocabulary", ""])
    model.table("one", [[1.0]] * 4)
    model.look_up("h", "one", (4, 1))
    model.product("logits", "h", 1, "e", 4)
    model.cross_entropy("terms", "logits", 4)
    case = Case(folder, "b010", model, "terms")
    weights = {"e": [[1000.0], [0.0], [-1000.0], [0.0]]}
    run, gradients = case.gradients(plan, [[[0]]], [[[label]]], weights)
    assert run.losses[0] == loss
    assert gradients["e"][:, 0].tolist() == gradient


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_replicate=2", "tp=3", "dp_shard=2,tp=2"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_b011_tied_embedding(folder, dtype, plan):
    """E is the look-up and the output matrix; two rows of one token."""
    model = Model(1, 3, dtype)
    model.parameter("e", (3, 2), ["vocabulary", ""])
    model.look_up("h", "e", (3, 2))
    model.product("logits", "h", 2, "e", 3)
    model.cross_entropy("terms", "logits", 3)
    case = Case(folder, f"b011{dtype}", model, "terms")
    start = {"e": [[1, 0], [0, 1], [1, 1]]}
    tokens, labels = [[[0], [2]]], [[[2], [1]]]
    run, gradients = case.gradients(plan, tokens, labels, start, rate=0.5)
    assert run.losses[0] == pytest.approx(1.206719759, abs=1e-6)
    np.testing.assert_allclose(
        gradients["e"], [[0.239448976, -0.10518862], [-0.316348019, -0.394029221],
                         [0.393247063, 0.182087664]], atol=1e-6)
    _, after = case.step(plan, tokens * 2, labels * 2, start, rate=0.5)
    np.testing.assert_allclose(
        after["e"], [[0.778421722, 0.06669618], [0.241590963, 1.343617023],
                     [0.739681885, 0.910196651]], atol=1e-6)


@pytest.mark.parametrize("plan", ["tp=2", "tp=1", "dp_shard=2,tp=2", "dp_replicate=2,tp=2"])
def test_b013_replicated_parameters_count_once_in_the_norm(folder, plan):
    """Gradients 3, 4 | 12, 0 of a weight over tp and 84 of a gain on every rank."""
    model = Model(1, 2)
    model.parameter("w", (1, 4), ["", "ffn"])
    model.parameter("gain", (1,))
    model.split_table("slopes", 4)
    model.look_up("x", "slopes", (1, 4))
    model.product("y", "x", 4, "w", 1)
    model.spread("gains", "gain", (1,), "y")
    model.table("eighty", [[84.0]])
    model.look_up("slope", "eighty", (1, 1))
    model.binary("scaled", "mul", "gains", "slope", (1,))
    model.binary("sum", "add", "y", "scaled", (1,))
    model.squeeze("terms", "sum")
    case = Case(folder, "b013", model, "terms")
    weights = {"w": np.zeros((1, 4)), "gain": [0.0], "slopes": [[3, 4, 12, 0]]}
    # Two equal rows, so that two data ranks have one each; the mean is the row's.
    run, gradients = case.gradients(plan, [[[0], [0]]], [[[0], [0]]], weights,
                                    options=["--max-grad-norm", 17])
    assert run.receipts[0]["extra"]["gradient_norm"] == 85.0
    np.testing.assert_allclose(gradients["w"], [[0.6, 0.8, 2.4, 0.0]], atol=1e-6)
    np.testing.assert_allclose(gradients["gain"], [16.8], rtol=1e-6)
    assert not gradients["slopes"].any()  # not trained


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_replicate=2", "dp_shard=2,tp=1"])
def test_b015_an_infinite_gradient_is_refused(folder, plan):
    """Adam at step 3; then sqrt(p - 1) at p = 1 has an infinite gradient."""
    model = Model(1, 2)
    model.parameter("p", (1,))
    model.parameter("q", (1,))
    model.table("starts", [[0.0], [1.0]])
    model.table("slopes", [[0.0], [1.0]])
    model.look_up("start", "starts", (2, 1))
    model.look_up("slope", "slopes", (2, 1))
    model.spread("ps", "p", (1,), "start")
    model.spread("qs", "q", (1,), "start")
    model.binary("difference", "sub", "ps", "start", (1,))
    model.add(f"%root = mixle.sqrt %difference : {model.tensor(1, rows=True)}")
    model.binary("first", "mul", "root", "slope", (1,))
    model.binary("second", "mul", "qs", "slope", (1,))
    model.binary("sum", "add", "first", "second", (1,))
    model.squeeze("terms", "sum")
    case = Case(folder, "b015", model, "terms")
    start = {"p": [1.0], "q": [1.0]}
    optimizer = "adam,lr=0.1"
    # Three steps of zero gradients leave both at 1.
    run, after = case.step(plan, [[[0], [0]]] * 3, [[[0], [0]]] * 3, start,
                           optimizer=optimizer, options=["--max-grad-norm", 1])
    assert run.receipts[-1]["step"] == 3
    assert after["p"] == 1 and after["q"] == 1
    saved = case.folder / "refused.safetensors"
    result = run_tool(
        "mixle-run", case.folder / f"{plan}.fbs", "-q", "--save", saved,
        "--weights", case.folder / "start.safetensors",
        *case.data([[[0], [0]]] * 3 + [[[1], [0]]], [[[0], [0]]] * 4), status=1)
    [error] = result.errors()
    assert "step 4 is not committed" in error and "parameter 'p'" in error
    assert not saved.exists()


@pytest.mark.parametrize("plan", ["dp_shard=4", "dp_replicate=1", "dp_shard=2,tp=2"])
def test_b016_sum_of_squares_beyond_single_precision(folder, plan):
    model = Model(1, 2)
    model.parameter("w", (1, 128), ["", "ffn"])
    model.split_table("slopes", 128)
    model.look_up("x", "slopes", (1, 128))
    model.product("y", "x", 128, "w", 1)
    model.squeeze("terms", "y")
    case = Case(folder, "b016", model, "terms")
    weights = {"w": np.zeros((1, 128)), "slopes": np.full((1, 128), 1e19)}
    run, gradients = case.gradients(plan, [[[0]]], [[[0]]], weights,
                                    options=["--max-grad-norm", 2])
    assert run.receipts[0]["extra"]["gradient_norm"] == pytest.approx(
        np.float32(1e19) * np.sqrt(128.0), rel=1e-5)
    np.testing.assert_allclose(gradients["w"], np.full((1, 128), 2 / np.sqrt(128)), rtol=1e-6)


@pytest.mark.parametrize("plan", ["dp_shard=2", "tp=2"])
def test_b016_gradients_beyond_every_unit_are_refused(folder, plan):
    """Every gradient is finite in double precision, but the sum of their squares
    would not be: the parameter is named, no label is said to be missing."""
    model = Model(1, 2, "f64")
    model.parameter("w", (1, 4), ["", "ffn"])
    model.split_table("slopes", 4)
    model.look_up("x", "slopes", (1, 4))
    model.product("y", "x", 4, "w", 1)
    model.squeeze("terms", "y")
    case = Case(folder, "b016f64", model, "terms")
    program = case.compile(1, plan, "--optimizer", f"{SGD}1", "--max-grad-norm", 2)
    start = save_weights(case.folder / "start.safetensors",
                         {"w": np.zeros((1, 4)), "slopes": np.full((1, 4), 2e154)})
    saved = case.folder / "refused.safetensors"
    result = run_tool("mixle-run", program, *case.data([[[0]]], [[[0]]]), "--weights", start,
                      "--save", saved, "-q", status=1)
    assert result.errors() == [
        "mixle-run: error: step 1 is not committed: the gradient of parameter 'w' is too large for "
        "any unit; parameters and optimizer state are untouched"]
    assert not saved.exists()
    # Each condition of a commit has its own reason.
    dump = run_tool("mixle-run", program, "--dump").out
    assert "no_valid_token" in dump and "non_finite_norm" in dump


@pytest.mark.parametrize("plan", ["tp=1", "tp=2", "tp=4"])
def test_b044_row_parallel_bias_is_added_once(folder, plan):
    """y = W x + b with x split; a label picks the component of y."""
    model = Model(1, 4)
    model.parameter("w", (2, 4), ["", "ffn"])
    model.parameter("bias", (2,), decay=False)
    model.split_table("inputs", 4)
    model.look_up("x", "inputs", (1, 4))
    model.product("product", "x", 4, "w", 2)
    model.spread("biases", "bias", (2,), "product")
    model.binary("y", "add", "product", "biases", (2,))
    model.table("unit", [[1.0, 0.0], [0.0, 1.0]])
    model.look_up("chosen", "unit", (2, 2), ids="labels")
    model.binary("picked", "mul", "y", "chosen", (2,))
    model.add(f'%terms = mixle.reduce "sum" %picked dims = [2] : '
              f"{model.tensor(2, rows=True)} -> {model.tensor(rows=True)}")
    case = Case(folder, "b044", model, "terms")
    weights = {"w": [[1, 1, 1, 1], [1, 2, 3, 4]], "bias": [100, 200], "inputs": [[1, 2, 3, 4]]}
    y = [case.loss(plan, [[[0]]], [[[label]]], weights) for label in (0, 1)]
    assert y == [110, 230]
    _, gradients = case.gradients(plan, [[[0]]], [[[1]]], weights)
    assert gradients["bias"].tolist() == [0, 1]
    assert gradients["w"].tolist() == [[0, 0, 0, 0], [1, 2, 3, 4]]


@pytest.mark.parametrize(
    "plan", ["dp_replicate=2,tp=2", "dp_replicate=1", "dp_shard=2,tp=2", "tp=4", "microbatches=2"])
def test_b051_scatter_add_of_repeated_ids(folder, plan):
    """ids 1, 1 with upstream 0.5, 0.25 and ids 3, 1 with 2, 1; a rate of 4 makes
    the mean over four tokens their sum."""
    model = Model(2, 4)
    model.parameter("table", (4, 1), ["vocabulary", ""])
    model.look_up("row", "table", (4, 1))
    model.table("upstreams", [[0.5], [0.25], [2.0], [1.0]])
    model.look_up("upstream", "upstreams", (4, 1), ids="labels")
    model.binary("product", "mul", "row", "upstream", (1,))
    model.squeeze("terms", "product")
    case = Case(folder, "b051", model, "terms")
    run, after = case.step(plan, [[[1, 1], [3, 1]]], [[[0, 1], [2, 3]]],
                           {"table": np.zeros((4, 1))}, rate=4.0)
    assert after["table"][:, 0].tolist() == [0, -1.75, 0, -2]


@pytest.mark.parametrize("plan", ["dp_replicate=1", "dp_shard=2", "dp_replicate=2"])
def test_b064_no_decay_of_norms_and_biases(folder, plan):
    """All gradients are zero: only decay moves anything."""
    model = Model(1, 2, "f64")
    model.parameter("matrix", (1, 1))
    model.parameter("bias", (1,), decay=False)
    model.parameter("gain", (1,), decay=False)
    model.parameter("embedding", (2, 1), ["vocabulary", ""])
    model.look_up("h", "embedding", (2, 1))
    model.product("y", "h", 1, "matrix", 1)
    model.spread("biases", "bias", (1,), "y")
    model.spread("gains", "gain", (1,), "y")
    model.binary("scaled", "mul", "y", "gains", (1,))
    model.binary("sum", "add", "scaled", "biases", (1,))
    model.table("zeros", [[0.0], [0.0]])
    model.look_up("zero", "zeros", (2, 1))
    model.binary("nothing", "mul", "sum", "zero", (1,))
    model.squeeze("terms", "nothing")
    case = Case(folder, "b064", model, "terms")
    weights = {"matrix": [[2.0]], "bias": [3.0], "gain": [1.0], "embedding": [[4.0], [4.0]]}
    for optimizer, expected in (
            ("adamw,lr=0.1,weight_decay=0.5", [1.9, 3.0, 1.0, 3.8]),
            ("adamw,lr=0.1,weight_decay=0.5,decay=all", [1.9, 3.0 * 0.95, 0.95, 3.8])):
        _, after = case.step(plan, [[[0], [1]]], [[[0], [0]]], weights, optimizer=optimizer)
        found = [after[k].flat[0] for k in ("matrix", "bias", "gain", "embedding")]
        assert found == expected


def test_b064_gpt2_decays_matrices_and_embeddings(folder):
    """The same step with and without decay differs by rate * decay * weight for
    matrices and embeddings, by nothing for norms and biases."""
    config = gpt2_config(folder / "b064.json", n_layer=1, n_head=2, n_embd=8,
                         vocab_size=128, n_positions=8)
    text = pseudo_text(folder / "b064.txt", 2000)
    after = {}
    for decay in ("0", "0.5"):
        program = compile_program(folder / f"b064-{decay}.fbs", "--model", config, "--batch", 2,
                                  "--precision", "fp64", "--optimizer",
                                  f"adamw,lr=0.1,weight_decay={decay}")
        saved = folder / f"b064-{decay}.safetensors"
        train(program, "--text", text, "--steps", 1, "--seed", 1, "--save", saved)
        after[decay] = load_weights(saved)
    start = folder / "b064-start.safetensors"
    run_tool("mixle-run", program, "--seed", 1, "--save", start)
    for name, weight in load_weights(start).items():
        decays = weight.ndim == 2
        assert decays == (not name.endswith("bias") and ".ln_" not in name), name
        expected = 0.05 * weight if decays else np.zeros_like(weight)
        np.testing.assert_allclose(after["0"][name] - after["0.5"][name], expected,
                                   rtol=0, atol=1e-15, err_msg=name)


@pytest.mark.parametrize("plan", ["gradient_accumulation_steps=3", "dp_replicate=3",
                                  "microbatches=3"])
def test_b066_the_first_warm_up_step_has_a_rate(folder, plan):
    case = classifier(folder, "b066", 3)
    tokens, labels = [[[0, 1, 2]] * 3] * 10, [[[0, 1, 2]] * 3] * 10
    program = case.compile(3, plan, "--optimizer", f"{SGD}1",
                           "--lr-schedule", "linear,warmup=4,total=10")
    run = train(program, *case.data(tokens, labels))
    rates = [receipt["extra"]["rate"] for receipt in run.receipts]
    np.testing.assert_allclose(
        rates, [0.25, 0.5, 0.75, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7], rtol=1e-15)

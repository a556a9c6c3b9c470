"""The linear probe against scikit-learn, its splits, and what it may not see."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, roc_auc_score

from dssl.data.load import load
from dssl.errors import ProbeError
from dssl.evaluation import logistic, splits
from dssl.evaluation.probe import STRENGTHS, Scaling, linear_probe, scaled
from dssl.evaluation.splits import Split, random_splits
from dssl.graph.adjacency import gcn_matrix


def blobs(n: int = 150, d: int = 6, classes: int = 3, spread: float = 1.0, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    x = rng.normal(size=(classes, d))[y] * spread + rng.normal(size=(n, d)) * np.geomspace(1, 0.05, d)
    return (x + 3).astype(np.float32), y


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("scaling", ["global", "columns", "plain"])
def test_same_as_scikit_learn(classes, scaling):
    x, y = blobs(classes=classes)
    splits = random_splits(y, count=2)
    strengths = (0.1, 1.0, 10.0)
    rows = logistic.principal_rows(scaled(x, scaling))
    masks = torch.zeros(len(y), 2)
    for at, split in enumerate(splits):
        masks[split.train, at] = 1
    weights = logistic.fit_path(rows, torch.from_numpy(y), masks, strengths, num_classes=classes)
    for at, split in enumerate(splits):
        for c, strength in enumerate(strengths):
            theirs = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000)
            theirs.fit(scaled(x, scaling)[split.train].astype(float), y[split.train])
            ours = logistic.logits(rows.x, weights[:, :, at : at + 1, c])[:, :, 0].softmax(1).numpy()
            np.testing.assert_allclose(ours, theirs.predict_proba(scaled(x, scaling)), atol=2e-3)
            coefficients = (rows.axes.float() @ weights[:-1, :, at, c]).numpy().T  # back from the principal axes
            if classes == 2:  # one weight vector there, the difference of two here
                coefficients = coefficients[1:] - coefficients[:1]
            np.testing.assert_allclose(coefficients, theirs.coef_, atol=0.02 * np.abs(theirs.coef_).max())


def agreement(x: np.ndarray, y: np.ndarray, split: Split, scaling: Scaling) -> list[tuple[float, float]]:
    """For each C of the grid: largest difference of a probability from scikit-learn's, and of the test accuracies."""
    z = scaled(x, scaling)
    rows = logistic.principal_rows(z, split.train)
    few = logistic.Rows(rows.x[split.train], rows.axes)
    labels, masks = torch.from_numpy(y[split.train]), torch.ones(len(split.train), 1)
    weights = logistic.fit_path(few, labels, masks, STRENGTHS, num_classes=int(y.max()) + 1)
    found = []
    for c, strength in enumerate(STRENGTHS):
        theirs = LogisticRegression(C=strength, tol=1e-9, max_iter=20_000).fit(z[split.train].astype(float), labels)
        ours, wanted = logistic.logits(rows.x, weights[..., c])[:, :, 0].softmax(1).numpy(), theirs.predict_proba(z)
        right, right_there = (float((p.argmax(1) == y)[split.test].mean()) for p in (ours, wanted))
        found.append((float(np.abs(ours - wanted).max()), abs(right - right_there)))
    return found


@pytest.mark.parametrize("scaling", ["global", "columns", "plain"])
@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_few_labels_in_wide_rows_converge_over_the_whole_grid(scaling: Scaling, size: float) -> None:
    """Separable classes, whose loss tends to 0 as C grows; and small columns, whose weights tend to 0."""
    x, y = blobs(n=400, d=60, classes=4, spread=0.5, seed=2)
    split = Split(np.arange(40), np.arange(40, 80), np.arange(80, 400))
    found = agreement(size * x, y, split, scaling)
    assert max(error for error, _ in found) < 0.02
    assert max(gap for _, gap in found) <= 1 / 320


def test_the_number_of_evaluations_over_the_grid_does_not_stop_the_solver() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 100)) @ draw.normal(size=(100, 100))
    scores = x @ draw.normal(size=(100, 5))
    y = torch.from_numpy((scores / scores.std() + 0.9 * draw.gumbel(size=scores.shape)).argmax(1))
    rows = logistic.principal_rows((x / x.std()).astype(np.float32))
    solve = functools.partial(logistic.fit_path, rows, y, torch.ones(300, 1), STRENGTHS, num_classes=5)
    torch.testing.assert_close(solve(), solve(max_evaluations=10_000), rtol=0, atol=0)
    assert not torch.allclose(solve(), solve(max_evaluations=50), rtol=0, atol=1e-3)


@pytest.mark.parametrize("scaling", ["global", "columns", "plain"])
def test_the_public_split_of_cora_over_the_whole_grid(
    scaling: Scaling, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DSSL_DATA", str(data_dir))
    graph = load("cora")
    (split,) = splits.published("cora", "public")
    axes = np.random.default_rng(0).normal(size=(graph.num_features, 256))
    smooth = gcn_matrix(graph.adjacency())
    x = np.asarray(smooth @ (smooth @ (graph.x @ axes)), np.float32)
    found = agreement(x, graph.y, split, scaling)
    assert max(error for error, _ in found) < 0.05
    assert max(gap for _, gap in found) <= 0.0021


@pytest.mark.parametrize("classes", [2, 4])
def test_selection_and_scores_equal_a_literal_loop_with_scikit_learn(classes):
    x, y = blobs(n=200, classes=classes, spread=0.4, seed=1)
    rare = int(np.bincount(y).argmin())
    splits = random_splits(y, count=3)
    strengths = (0.01, 1.0, 100.0)
    result = linear_probe(x, y, splits, strengths=strengths)
    for at, split in enumerate(splits):
        best = (-1.0, -np.inf)
        for scaling in ("global", "columns"):
            z = scaled(x, scaling).astype(float)
            for strength in strengths:
                model = LogisticRegression(C=strength, tol=1e-8, max_iter=10_000).fit(z[split.train], y[split.train])
                p = model.predict_proba(z[split.val])
                key = ((p.argmax(1) == y[split.val]).mean(), np.log(p[np.arange(len(p)), y[split.val]]).mean())
                if key > best:
                    best, chosen, final, xs = key, (scaling, strength), model, z
        assert result.chosen[at] == chosen
        predicted = final.predict(xs[split.test])
        truth = y[split.test]
        expected = {
            "accuracy": (predicted == truth).mean(),
            "balanced_accuracy": balanced_accuracy_score(truth, predicted),
            "macro_f1": f1_score(truth, predicted, average="macro"),
        }
        if classes == 2:
            p = final.predict_proba(xs[split.test])[:, rare]
            expected |= {
                "roc_auc": roc_auc_score(truth == rare, p),
                "average_precision": average_precision_score(truth == rare, p),
            }
        assert result.validation.splits[at] == pytest.approx(best[0])
        assert {name: score.splits[at] for name, score in result.scores.items()} == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("measure", ["balanced_accuracy", "average_precision", "macro_f1"])
def test_the_measure_and_the_weights_of_the_classes_equal_a_literal_loop_with_scikit_learn(measure):
    x, y = blobs(n=400, classes=2, spread=0.5, seed=2)
    y = np.where((y == 1) & (np.arange(400) % 4 > 0), 0, y)  # about one in eight
    x, split = x[:, :3], random_splits(y, count=1)[0]
    strengths = (0.001, 0.1, 10.0)
    kind = {"class_weight": "balanced", "measure": measure, "scalings": ("global",)}
    found = linear_probe(x, y, [split], strengths=strengths, **kind)
    z, best = scaled(x, "global").astype(float), (-1.0, -np.inf)
    for strength in strengths:
        model = LogisticRegression(C=strength, class_weight="balanced", tol=1e-8, max_iter=10_000)
        model.fit(z[split.train], y[split.train])
        p, truth = model.predict_proba(z[split.val]), y[split.val]
        score = {
            "balanced_accuracy": lambda p, truth: balanced_accuracy_score(truth, p.argmax(1)),
            "average_precision": lambda p, truth: average_precision_score(truth, p[:, 1]),
            "macro_f1": lambda p, truth: f1_score(truth, p.argmax(1), average="macro"),
        }[measure]
        key = (score(p, truth), np.log(p[np.arange(len(p)), truth]).mean())
        if key > best:
            best, chosen, final = key, ("global", strength), model
    assert found.chosen == (chosen,)
    assert found.validation.mean == pytest.approx(best[0], abs=0.02)  # one pair in another order
    assert found.score.mean == pytest.approx(score(final.predict_proba(z[split.test]), y[split.test]), abs=0.02)
    plain = linear_probe(x, y, [split], strengths=strengths, measure=measure).scores["balanced_accuracy"].mean
    assert found.scores["balanced_accuracy"].mean > plain  # the rare class is predicted more often


def test_test_labels_do_not_reach_fit_or_selection():
    x, y = blobs(spread=0.3)
    splits = random_splits(y, count=3)
    before = linear_probe(x, y, splits)
    for at, split in enumerate(splits):
        changed = y.copy()
        changed[split.test] = (changed[split.test] + 1) % 3
        after = linear_probe(x, changed, [split])
        assert after.chosen[0] == before.chosen[at]
        assert after.validation.splits[0] == before.validation.splits[at]
        assert after.accuracy.splits[0] != before.accuracy.splits[at]


def test_a_probe_that_is_not_tested_reads_no_test_label():
    x, y = blobs(spread=0.3)
    splits = random_splits(y, count=3)
    for split in splits:
        blind = y.copy()
        blind[split.test] = -1
        found = linear_probe(x, blind, [split], tested=False)
        assert found.validation.splits == linear_probe(x, y, [split]).validation.splits
        assert found.scores == {}
    with pytest.raises(ProbeError, match="without a label"):
        linear_probe(x, blind, splits, tested=False)  # a test node of the last split trains in another
    with pytest.raises(ProbeError, match="an empty part"):
        linear_probe(x, y, [Split(np.arange(5), np.zeros(0, np.int64), np.arange(9, 12))], tested=False)


def test_order_of_the_nodes_does_not_matter_and_the_input_stays():
    x, y = blobs(n=300, spread=1.5)
    splits = random_splits(y, count=2)
    order = np.random.default_rng(3).permutation(len(y))
    place = np.argsort(order)
    moved = [Split(*(np.sort(place[part]) for part in split)) for split in splits]
    copy = x.copy()
    one, two = linear_probe(x, y, splits), linear_probe(x[order], y[order], moved)
    assert one.accuracy.splits == pytest.approx(two.accuracy.splits, abs=0.02)
    assert one.chosen == two.chosen
    np.testing.assert_array_equal(x, copy)
    assert linear_probe(x, y, splits) == one  # the same on every call


def test_scaling_is_worth_choosing():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    x = rng.normal(size=(400, 2)) * [1000, 1]
    x[:, 1] += 4 * y  # the informative column is a thousand times smaller
    splits = random_splits(y, count=3)
    assert linear_probe(x, y, splits, scalings=("columns",)).accuracy.mean > 0.95
    assert linear_probe(x, y, splits, scalings=("global",), strengths=(0.01,)).accuracy.mean < 0.7
    assert {scaling for scaling, _ in linear_probe(x, y, splits, strengths=(0.01,)).chosen} == {"columns"}


def test_class_absent_from_train_is_never_predicted_and_the_rest_is_as_without_it():
    x, y = blobs(classes=3, spread=2)
    keep = np.flatnonzero(y < 2)
    absent = np.flatnonzero(y == 2)
    split = Split(keep[:60], keep[60:80], np.sort(np.concatenate([keep[80:], absent])))
    result = linear_probe(x, y, [split], strengths=(1.0,), scalings=("plain",))
    model = LogisticRegression(tol=1e-8, max_iter=1000).fit(scaled(x, "plain")[split.train], y[split.train])
    assert result.accuracy.mean == pytest.approx(model.score(scaled(x, "plain")[split.test], y[split.test]))


def test_edge_cases():
    x, y = blobs(n=60)
    y[0] = 3  # a class with a single node
    assert 0 <= linear_probe(x, y, random_splits(y)).accuracy.mean <= 1
    constant = linear_probe(np.ones((60, 4)), y, random_splits(y))
    for value, split in zip(constant.accuracy.splits, random_splits(y), strict=True):
        assert value == pytest.approx((y[split.test] == np.bincount(y[split.train]).argmax()).mean())
    one_class = Split(np.flatnonzero(y == 1)[-5:], np.arange(3), np.arange(3, 9))
    assert linear_probe(x, y, [one_class]).accuracy.mean == pytest.approx((y[3:9] == 1).mean())
    wide = np.random.default_rng(0).normal(size=(60, 200))
    assert linear_probe(wide, y, random_splits(y, count=2)).accuracy.std >= 0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_splits([0, 1, -1]), "2 labelled nodes are too few"),
        (lambda: random_splits([0, 1] * 9, shares=(0.5, 0.5, 0.5)), "sum to 1"),
        (lambda: random_splits([0, 1] * 9, count=0), "number of splits is 0"),
        (lambda: linear_probe(np.ones((10, 1)), [0] * 10, random_splits([0] * 10)), "fewer than two classes"),
        (lambda: linear_probe(np.ones((9, 1)), [0] * 10, random_splits([0] * 10)), "one row per label"),
        (lambda: linear_probe(np.full((10, 1), np.nan), [0, 1] * 5, random_splits([0] * 10)), "NaN"),
        (lambda: linear_probe(np.ones((10, 1)), [-1, 0, 1, 1, 0] * 2, random_splits([0] * 10)), "without a label"),
        (
            lambda: linear_probe(np.ones((10, 1)), [0, 1] * 5, random_splits([0] * 10), scalings=("column",)),
            "did you mean 'columns'",
        ),
        (
            lambda: linear_probe(np.ones((10, 1)), [0, 1] * 5, random_splits([0] * 10), measure="acuracy"),
            "unknown measure 'acuracy', did you mean 'accuracy'",
        ),
        (
            lambda: linear_probe(np.ones((12, 1)), [0, 1, 2] * 4, random_splits([0] * 12), measure="roc_auc"),
            "roc_auc is defined for two classes, and the labels have 3",
        ),
    ],
)
def test_bad_input_gives_one_line(call, words):
    with pytest.raises(ProbeError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)

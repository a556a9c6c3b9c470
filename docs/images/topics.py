"""The picture of docs/topics.md: ``python docs/images/topics.py`` writes docs/images/topics.png.

Each of 3,000 nodes has one of three topics. A topic has rare words, which its nodes use more often. Frequent words do
not depend on the topic. They have the largest variances, so the principal components of words consist of them. In the
covariance without its diagonal, only the topics remain.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dssl.evaluation.pictures import look, new_figure, save
from dssl.graph.principal import Principal
from dssl.graph.word_covariance import WordCovariance

OUT = Path(__file__).with_suffix(".png")
NODES, SHOWN, TOPICS, WORDS, FREQUENT = 3000, 450, 3, 60, 40


def bags(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Topic of each node, and its words as a 0/1 matrix: frequent words, then those of each topic."""
    topic = np.arange(NODES) % TOPICS
    own = np.repeat(np.arange(TOPICS), WORDS) == topic[:, None]
    words = rng.random(own.shape) < np.where(own, 0.12, 0.02)
    frequent = rng.random((NODES, FREQUENT)) < 0.4
    return topic, np.hstack([frequent, words]).astype(np.float32)


def main() -> None:
    """Draw the covariance with and without its diagonal, and the nodes by either."""
    topic, x = bags(np.random.default_rng(0))
    covariance = np.cov(x.T)
    words = WordCovariance.fit(x)
    projected = words.project(x)
    both = {
        "The nodes by two principal\ncomponents of their words": projected,
        "The nodes by two principal\ncomponents of their topics": projected @ words.weights.astype(np.float32),
    }
    figure, first = new_figure(10.5, 3.1)
    first.remove()
    panels = figure.subplots(1, 4)
    without = covariance - np.diag(np.diag(covariance))
    for panel, matrix, title in (
        (panels[0], covariance, "Covariance of words:\neach explains itself"),
        (panels[1], without, "Without the diagonal:\nthe topics"),
    ):
        most = 0.012 if matrix is without else float(np.abs(matrix).max())
        panel.imshow(matrix, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel(f"{FREQUENT} frequent words, {TOPICS} × {WORDS} rare ones", fontsize=7)
    for panel, (title, columns) in zip(panels[2:], both.items(), strict=True):
        rows = Principal.fit(columns, 2).apply(columns)[:SHOWN]
        for at in range(TOPICS):
            colour, marker = look(at)
            panel.plot(*rows[topic[:SHOWN] == at].T, marker, color=colour, markersize=2.5, linestyle="", alpha=0.7)
        panel.set_title(title, fontsize=9)
    for panel in panels:
        panel.set_xticks([])
        panel.set_yticks([])
    save(figure, OUT)


if __name__ == "__main__":
    main()

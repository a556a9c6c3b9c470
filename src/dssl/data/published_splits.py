"""Published splits of data sets: Geom-GCN, LINKX, the heterophilous graphs, Planetoid."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl.data.catalogue import Dataset, split_files
from dssl.data.datasets import find
from dssl.data.published import bases
from dssl.errors import DatasetError

Split = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def published_splits(name: str) -> dict[str, list[Split]]:
    """Return the published splits whose files are on this machine, as ``(train, validation, test)`` positions.

    Kinds: ``geom-gcn`` (ten, 48/32/20 per cent though the files say 0.6 and 0.2; Cora's, and numbers 4 and 5 of
    CiteSeer's, cover the largest component only), ``linkx`` (five, 50/25/25, labelled nodes only), ``heterophilous``
    (ten, 50/25/25), ``public`` (the one of Planetoid: 20 nodes of each class, 500, 1,000).
    """
    dataset = find(name)
    found = {
        "geom-gcn": _geom_gcn_splits(dataset),
        "linkx": _linkx_splits(dataset),
        "heterophilous": _heterophilous_splits(dataset),
        "public": _public_split(dataset),
    }
    return {kind: splits for kind, splits in found.items() if splits}


def _locate(*places: str) -> Path | None:
    candidates = (base / place for base in bases() for place in places)
    return next((path for path in candidates if path.is_file()), None)


def _geom_gcn_splits(dataset: Dataset) -> list[Split]:
    if not dataset.split_name:
        return []
    paths = [_locate(f"{dataset.folder}/{file}", f"geomgcn_splits/{file}") for file in split_files(dataset.split_name)]
    splits = []
    for path in paths:
        if path is None:
            return []
        with np.load(path, allow_pickle=False) as masks:
            splits.append(_from_masks(masks["train_mask"], masks["val_mask"], masks["test_mask"]))
    return splits


def _from_masks(train: NDArray[Any], val: NDArray[Any], test: NDArray[Any]) -> Split:
    return np.flatnonzero(train), np.flatnonzero(val), np.flatnonzero(test)


# LINKX's split files are pickles: only these two, known by their SHA-256, are opened.
LINKX_SPLITS = {
    "penn94": ("fb100-Penn94-splits.npy", "88a1060358482d8e25b978ab59c4ff71771388cd5ffac3dd775a3cd9dc85b032"),
    "twitch-de": ("twitch-e-DE-splits.npy", "3e620e7b0d26e8b433e7e0bc0753d40c7004bfb51eba2d2926748f8be80e7806"),
}


def _linkx_splits(dataset: Dataset) -> list[Split]:
    file, sha256 = LINKX_SPLITS.get(dataset.name, ("", ""))
    path = _locate(f"{dataset.folder}/{file}") if file else None
    if path is None:
        return []
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise DatasetError(f"{path} is not the published split file (its SHA-256 differs); replace it")
    parts = np.load(io.BytesIO(content), allow_pickle=True)  # the bytes that were checked
    return [
        (np.asarray(part["train"], np.int64), np.asarray(part["valid"], np.int64), np.asarray(part["test"], np.int64))
        for part in parts
    ]


def _heterophilous_splits(dataset: Dataset) -> list[Split]:
    path = _locate(f"{dataset.folder}/{dataset.files[0]}") if dataset.family == "heterophilous" else None
    if path is None:
        return []
    with np.load(path, allow_pickle=False) as content:
        masks = [content[f"{part}_masks"] for part in ("train", "val", "test")]
    return [_from_masks(*split) for split in zip(*masks, strict=True)]


def _public_split(dataset: Dataset) -> list[Split]:
    path = _locate(f"{dataset.folder}/{dataset.files[-1]}") if dataset.family == "planetoid" else None
    if path is None:
        return []
    classes = dataset.figures.classes
    assert classes is not None, "all three are in the catalogue"
    train = 20 * classes  # the files begin with the training nodes, 20 of each class
    test = np.sort(np.array(path.read_text(encoding="ascii").split(), dtype=np.int64))
    return [(np.arange(train), np.arange(train, train + 500), test)]

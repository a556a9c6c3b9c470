"""The published graphs that are known by name: their files, what to know about them, and their figures."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a graph in one line; ``None`` where they are not known.

    Args:
        nodes: number of nodes.
        edges: number of links, an undirected one counted once, without self loops, as the paper counts them.
        features: number of feature columns.
        classes: number of classes.
        edge: fraction of the links (self loops included) inside a class, h.
        class_average: class-average homophily, ĥ.
        node: node homophily.
        adjusted: adjusted homophily.
    """

    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    edge: float | None = None
    class_average: float | None = None
    node: float | None = None
    adjusted: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a graph whose files are available here.

    Args:
        figures: its figures.
        duplicates: fraction of nodes that share their (outgoing) links and their label with another, see
            `dssl.graph.duplicates`.
        spectrum: the spectrum of homophily, which needs no labels: number of directions of the features in which
            neighbours are similar or opposite above chance, smallest and largest eigenvalue, see
            `dssl.graph.homophily_spectrum`.
    """

    figures: Figures
    duplicates: float
    spectrum: tuple[int, float, float]


@dataclass(frozen=True, slots=True)
class Dataset:
    """One published graph.

    Args:
        name: what users call it.
        family: which reader takes it, see `dssl.data.published`.
        folder: its raw folder, below ``$DSSL_DATA``.
        files: the raw files that must be there.
        sha256: first 32 digits of the SHA-256 of the graph's files, if known.
        directed: whether its rows are directed links.
        origin: where the files are published.
        note: what to know before using it.
        pyg_name: its name in PyG's class, if that takes one.
        url: revision to download instead of the one that PyG's class names.
        split_name: how its Geom-GCN split files begin, if it has such.
    """

    name: str
    family: str
    folder: str
    files: tuple[str, ...]
    sha256: str | None
    directed: bool
    origin: str
    note: str = ""
    pyg_name: str = ""
    url: str = ""
    split_name: str = ""

    @property
    def measured(self) -> Measured | None:
        """The measurements of the graph as loaded; none where we have not seen its files."""
        return MEASURED.get(self.name)

    @property
    def figures(self) -> Figures:
        """The figures as measured, or as published elsewhere where we have not seen the files."""
        return PUBLISHED[self.name] if self.measured is None else self.measured.figures

    @property
    def paper(self) -> Figures | None:
        """The figures in the DSSL paper's table of data sets, if it is one of them."""
        return PAPER.get(self.name)


def split_files(name: str) -> tuple[str, ...]:
    """Names of the ten Geom-GCN split files; they say 0.6 and 0.2 but hold 48/32/20 per cent."""
    return tuple(f"{name}_split_0.6_0.2_{number}.npz" for number in range(10))


def _planetoid(name: str, title: str, sha256: str, note: str = "") -> Dataset:
    parts = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
    return Dataset(
        name=name,
        family="planetoid",
        folder=f"planetoid/{title}/raw",
        files=tuple(f"ind.{name}.{part}" for part in parts),
        sha256=sha256,
        directed=False,
        origin=f"data/ind.{name}.* of github.com/kimiyoung/planetoid",
        note=note,
        pyg_name=title,
        split_name=name,
    )


GEOM_GCN = "raw.githubusercontent.com/graphdml-uiuc-jlu/geom-gcn/f1fc0d14b3b019c562737240d06ec83b07d16a8f"


def _geom_gcn(
    name: str, family: str, folder: str, sha256: str, note: str, *, stem: str = "", origin: str = "", url: str = ""
) -> Dataset:
    stem = stem or name
    return Dataset(
        name=name,
        family=family,
        folder=folder,
        files=("out1_node_feature_label.txt", "out1_graph_edges.txt", *split_files(stem)),
        sha256=sha256,
        directed=True,
        origin=origin or f"new_data/{stem}/ and splits/{stem}* of github.com/graphdml-uiuc-jlu/geom-gcn",
        note=note,
        pyg_name="" if family == "actor" else stem,
        url=url,
        split_name=stem,
    )


def _facebook(name: str, title: str, sha256: str | None, note: str) -> Dataset:
    folder = name.replace("-", "")
    return Dataset(
        name=name,
        family="linkx",
        folder=f"linkx/{folder}/raw",
        files=("data.mat",),
        sha256=sha256,
        directed=False,
        origin=f"data/facebook100/{title}.mat of github.com/CUAI/Non-Homophily-Large-Scale",
        note=note,
        pyg_name=folder,
    )


def _heterophilous(name: str, sha256: str | None, note: str = "") -> Dataset:
    stem = name.replace("-", "_")
    return Dataset(
        name=name,
        family="heterophilous",
        folder=f"heterophilous/{stem}/raw",
        files=(f"{stem}.npz",),
        sha256=sha256,
        directed=False,
        origin=f"data/{stem}.npz of github.com/yandex-research/heterophilous-graphs",
        note=note,
        pyg_name=name,
    )


def _syn_cora(level: str, sha256: str) -> Dataset:
    return Dataset(
        name=f"syn-cora-{level}",
        family="syn-cora",
        folder="syn_cora",
        files=(f"h{float(level):.2f}-r1.npz",),
        sha256=sha256,
        directed=False,
        origin=f"h{float(level):.2f}-r1.npz of syn-cora (github.com/GemsLab/H2GCN)",
        note="First of the three graphs of this level; five classes of 298 nodes.",
    )


_CITESEER = "15 nodes have no features and no true label; PyG gives them class 0. 48 nodes have no links."
_TEXAS = (
    "16 of its 325 rows are self loops: h is 0.061 without them. One class has a single node. "
    "The paper's 1,793 features are a slip for 1,703."
)
_CORNELL = "The corrected files, with features and labels of Cornell's own; the paper used those of cornell-2020."
_CORNELL_2020 = "The files of 2020, as in the paper: Cornell's links with the features and labels of Texas."
_WIKIPEDIA = "Some nodes share their neighbours and label across splits (Platonov et al., 2023)."
_FACEBOOK = "The label is gender, −1 where unknown. The features are six columns, one-hot encoded."
_TWITCH = (
    "The file has each friendship once; ĥ is that of these rows, 0.139 with both directions. "
    "The paper's 76,569 edges are half of them, and its 2,545 features are another Twitch graph's."
)

DATASETS = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            _planetoid("cora", "Cora", "0ce1f9117972bdd087a19062d3decca8"),
            _planetoid("citeseer", "CiteSeer", "cbadbc965a18fe92dd73960a02a21e4e", _CITESEER),
            _planetoid("pubmed", "PubMed", "34aaa088b00e246edbc2a4ab7c320063"),
            _geom_gcn("texas", "webkb", "webkb/texas/raw", "2ff1b4218b2b8dd4479e402b68ee7ce2", _TEXAS),
            _geom_gcn("wisconsin", "webkb", "webkb/wisconsin/raw", "868e73ba9a3a4a2cffa3506f7cede116", ""),
            _geom_gcn(
                "cornell",
                "webkb",
                "webkb/cornell/raw",
                "19489e85292a29232b269f7ba5fa4b12",
                _CORNELL,
                origin="datasets/cornell/raw/ of github.com/tengxiao1/GraphACL",
            ),
            _geom_gcn(
                "cornell-2020",
                "webkb",
                "webkb_2020/cornell/raw",
                "b78995af46d45566978ef781272075ea",
                _CORNELL_2020,
                stem="cornell",
                origin="new_data/cornell/ and splits/cornell* of github.com/graphdml-uiuc-jlu/geom-gcn at f1fc0d14b3b0",
                url=f"https://{GEOM_GCN}",
            ),
            _geom_gcn(
                "squirrel",
                "wikipedia",
                "wikipedia/squirrel/geom_gcn/raw",
                "e0b4047e90473c8dbe7fc420d555faef",
                f"{_WIKIPEDIA} 165 nodes have no features.",
            ),
            _geom_gcn(
                "chameleon",
                "wikipedia",
                "wikipedia/chameleon/geom_gcn/raw",
                "6a0fa731ca74c9101e243b70aa68d9a8",
                f"{_WIKIPEDIA} 233 nodes have no features.",
            ),
            _geom_gcn("actor", "actor", "actor/raw", "840f8b6816945def335c0b9184d7b81d", "", stem="film"),
            _facebook("penn94", "Penn94", "85a9b5b6aa908695d0c154648ddb8897", _FACEBOOK),
            _facebook("cornell5", "Cornell5", "d9ff76ae34e855cb77b0779a3a320f7f", _FACEBOOK),
            _facebook("johns-hopkins55", "Johns Hopkins55", None, _FACEBOOK),
            _facebook("amherst41", "Amherst41", "3108e4b2edb01be05c5a61147583a40e", _FACEBOOK),
            _facebook("reed98", "Reed98", "d12ec74dc8c6e237385975b976c37095", _FACEBOOK),
            Dataset(
                name="twitch-de",
                family="twitch",
                folder="twitch_de/raw",
                files=("musae_DE_edges.csv", "musae_DE_features.json", "musae_DE_target.csv"),
                sha256="37140c652ffcee9dca482b6c0f18da86",
                directed=True,
                origin="data/twitch/DE/ of github.com/CUAI/Non-Homophily-Large-Scale",
                note=_TWITCH,
            ),
            _heterophilous("minesweeper", "e664c8dacf1e8ac466c2c09ed4b237bd", "Unbalanced: usually scored by ROC AUC."),
            _heterophilous("roman-empire", None),
            _heterophilous("amazon-ratings", None),
            _heterophilous("tolokers", None, "Unbalanced: usually scored by ROC AUC."),
            _heterophilous("questions", None, "Unbalanced: usually scored by ROC AUC."),
            _syn_cora("0.0", "cc5aa22624830a0ba9a864b59683c0cc"),
            _syn_cora("0.2", "f4c63fa12d056a8928499e93ee8064c8"),
            _syn_cora("0.5", "ded33f1d4bd943382bf76e3a4078b516"),
            _syn_cora("0.8", "fb700a949575103438a52881a7aa09d7"),
            _syn_cora("1.0", "51a6b5c6718d7f92b6a7dea892d87728"),
        )
    }
)

# Measured on the graphs as loaded, by `dssl.graph`; a test measures again.
MEASURED = MappingProxyType(
    {
        # nodes, edges, features, classes, h, ĥ, node and adjusted homophily; duplicates; spectrum
        "cora": Measured(Figures(2_708, 5_278, 1_433, 7, 0.810, 0.766, 0.825, 0.771), 0.069, (28, 0.00, 0.71)),
        "citeseer": Measured(Figures(3_327, 4_552, 3_703, 6, 0.736, 0.627, 0.717, 0.671), 0.134, (40, 0.00, 0.75)),
        "pubmed": Measured(Figures(19_717, 44_324, 500, 3, 0.802, 0.664, 0.792, 0.686), 0.405, (63, 0.00, 0.66)),
        "texas": Measured(Figures(183, 309, 1_703, 5, 0.108, 0.001, 0.097, -0.279), 0.175, (2, -0.61, 0.59)),
        "wisconsin": Measured(Figures(251, 499, 1_703, 5, 0.196, 0.094, 0.150, -0.181), 0.171, (7, -0.32, 0.44)),
        "cornell": Measured(Figures(183, 295, 1_703, 5, 0.131, 0.031, 0.186, -0.210), 0.071, (3, -0.42, 0.59)),
        "cornell-2020": Measured(Figures(183, 295, 1_703, 5, 0.305, 0.047, 0.386, -0.070), 0.082, (1, -0.49, 0.00)),
        "squirrel": Measured(Figures(5_201, 216_933, 2_089, 5, 0.224, 0.025, 0.216, 0.012), 0.770, (8, -0.09, 0.47)),
        "chameleon": Measured(Figures(2_277, 36_051, 2_325, 5, 0.235, 0.062, 0.247, 0.037), 0.783, (8, -0.16, 0.58)),
        "actor": Measured(Figures(7_600, 29_926, 932, 5, 0.219, 0.011, 0.221, 0.002), 0.083, (0, 0.00, 0.00)),
        "cornell5": Measured(Figures(18_660, 790_777, 4_735, 2, 0.546, 0.091, 0.559, 0.091), 0.002, (38, 0.00, 0.64)),
        "amherst41": Measured(Figures(2_235, 90_954, 1_193, 2, 0.531, 0.060, 0.542, 0.060), 0.000, (12, 0.00, 0.60)),
        "reed98": Measured(Figures(962, 18_812, 745, 2, 0.522, 0.022, 0.526, 0.022), 0.004, (10, 0.00, 0.65)),
        "twitch-de": Measured(Figures(9_498, 153_138, 2_514, 2, 0.632, 0.142, 0.597, 0.139), 0.058, (22, -0.36, 0.32)),
        "minesweeper": Measured(Figures(10_000, 39_402, 7, 2, 0.683, 0.009, 0.683, 0.009), 0.000, (2, 0.00, 0.06)),
        "syn-cora-0.0": Measured(Figures(1_490, 2_968, 1_433, 5, 0.000, 0.000, 0.000, -0.250), 0.000, (4, -0.31, 0.16)),
        "syn-cora-0.2": Measured(Figures(1_490, 2_968, 1_433, 5, 0.205, 0.008, 0.204, 0.006), 0.003, (1, 0.00, 0.17)),
        "syn-cora-0.5": Measured(Figures(1_490, 2_968, 1_433, 5, 0.511, 0.388, 0.506, 0.389), 0.001, (5, -0.18, 0.30)),
        "syn-cora-0.8": Measured(Figures(1_490, 2_968, 1_433, 5, 0.796, 0.745, 0.801, 0.745), 0.019, (4, 0.00, 0.55)),
        "syn-cora-1.0": Measured(Figures(1_490, 2_965, 1_433, 5, 1.000, 1.000, 1.000, 1.000), 0.011, (4, 0.00, 0.69)),
    }
)

# Published statistics of graphs whose files are not available here: Penn94 in the DSSL paper, the others by PyG.
PUBLISHED = MappingProxyType(
    {
        "penn94": Figures(41_554, 1_362_229, None, 2, 0.47, 0.046),
        "johns-hopkins55": Figures(classes=2),
        "roman-empire": Figures(22_662, 32_927, 300, 18),
        "amazon-ratings": Figures(24_492, 93_050, 300, 5),
        "tolokers": Figures(11_758, 519_000, 10, 2),
        "questions": Figures(48_921, 153_540, 301, 2),
    }
)

# Table 4 of the paper as printed. Slips: Texas has 1,703 features; Twitch-DE has 153,138 links (the paper has half of
# them) and 2,514 features (2,545 is another Twitch graph); Penn94's 5 are the raw columns before encoding.
PAPER = MappingProxyType(
    {
        "cora": Figures(2_708, 5_278, 1_433, 7, 0.81, 0.766),
        "citeseer": Figures(3_327, 4_552, 3_703, 6, 0.74, 0.627),
        "pubmed": Figures(19_717, 44_324, 500, 3, 0.80, 0.664),
        "texas": Figures(183, 309, 1_793, 5, 0.11, 0.001),
        "cornell-2020": Figures(183, 295, 1_703, 5, 0.30, 0.047),
        "squirrel": Figures(5_201, 216_933, 2_089, 5, 0.22, 0.025),
        "penn94": Figures(41_554, 1_362_229, 5, 2, 0.47, 0.046),
        "twitch-de": Figures(9_498, 76_569, 2_545, 2, 0.63, 0.142),
    }
)

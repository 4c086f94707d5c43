"""Charts as data: the HTML report draws them with Plotly, papers get vectors from Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#F0E442")
"""Okabe and Ito's palette: told apart by every kind of colour vision; grey for their black, which vanishes on dark."""
DASHES = ("solid", "dash", "dot", "dashdot")
"""After eight series the colours start again with another dash and another marker."""
MARKERS = ("circle", "square", "diamond", "triangle-up")


LONGEST = 42
CONFIDENCE_BINS = 15
GAP_COLORS = (COLORS[1], COLORS[5])
"""Of a gap between confidence and accuracy: too confident, not confident enough."""
HISTOGRAM_BASE, HISTOGRAM_HEIGHT = -24, 20
"""Where the histogram under a reliability diagram begins and how high it may be, in per cent of the axis."""
FEWEST_PIXELS = 20
"""Fewer pixels say little about an accuracy; their bars are hatched."""


def shorten(name: str) -> str:
    """A name that fits beside a chart; the middle of a long one is left out, since its ends tell models apart.

    >>> shorten("abc" * 20)
    'abcabcabcabcabcabcabc...abcabcabcabcabcabc'
    """
    if len(name) <= LONGEST:
        return name
    half = LONGEST // 2
    return f"{name[:half]}...{name[3 - half :]}"


@dataclass(frozen=True)
class Style:
    """How the series of an index is drawn: 32 of them are different."""

    color: str
    dash: str
    marker: str

    @classmethod
    def of(cls, index: int) -> Style:
        turn = index // len(COLORS)
        return cls(COLORS[index % len(COLORS)], DASHES[turn % len(DASHES)], MARKERS[turn % len(MARKERS)])


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: with the unit.
        percent: values are fractions and shown x 100.
        categories: names in order; the axis is a list of them then.
        whole: from 0 to 1, whatever the values.
        log: logarithmic; values are above 0.
    """

    title: str
    percent: bool = False
    categories: Sequence[str] | None = None
    whole: bool = False
    log: bool = False


@dataclass(frozen=True)
class Series:
    """Values of one name.

    Attributes:
        name: what the legend says.
        x, y: as many values each; text for an axis of categories.
        low, high: bounds of y (of x where y has the categories), or empty.
        labels: what a point is called when it is pointed at, or empty.
        style: index of its style.
    """

    name: str
    x: Sequence[float | str]
    y: Sequence[float | str]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    labels: Sequence[str] = ()
    style: int = 0


@dataclass(frozen=True)
class Chart:
    """What all charts have: a title, what is seen in words (for those who cannot see it), two axes."""

    title: str
    alt: str
    x: Axis
    y: Axis


@dataclass(frozen=True)
class LineChart(Chart):
    """Lines with markers; steps for distribution functions."""

    series: Sequence[Series] = ()
    steps: bool = False


@dataclass(frozen=True)
class BarChart(Chart):
    """Horizontal bars, one row per category of y, stacked when there are several series."""

    series: Sequence[Series] = ()


@dataclass(frozen=True)
class PointChart(Chart):
    """Points: a scatter, or with categories on y a row of points per category, joined by a line.

    Attributes:
        diagonal: draw x = y.
        note: a line of text inside the chart (a coefficient).
    """

    series: Sequence[Series] = ()
    diagonal: bool = False
    note: str = ""


@dataclass(frozen=True)
class Box:
    """The distribution of one row: quantiles and two means of another kind."""

    name: str
    quantiles: tuple[float, float, float, float, float]
    image_mean: float
    dataset: float


@dataclass(frozen=True)
class BoxChart(Chart):
    """Horizontal boxes: 5, 25, 50, 75 and 95 %, the mean over images and the dataset figure.

    Attributes:
        boxes: one per category of y.
        marks: what the mean over images and the dataset figure are called.
    """

    boxes: Sequence[Box] = ()
    marks: tuple[str, str] = ("NmIoU", "CmIoU")


@dataclass(frozen=True)
class HeatChart(Chart):
    """A matrix of fractions in colours; `values` has a row per category of y."""

    values: Sequence[Sequence[float]] = ()


@dataclass(frozen=True)
class ConfidenceBin:
    """Pixels of about one confidence.

    Attributes:
        confidence, accuracy: their means, fractions.
        pixels: how many there are.
        share: of all pixels.
    """

    confidence: float
    accuracy: float
    pixels: int
    share: float

    @property
    def sure(self) -> bool:
        """Whether there are enough pixels to believe the accuracy."""
        return self.pixels >= FEWEST_PIXELS


@dataclass(frozen=True)
class ReliabilityChart(Chart):
    """Accuracy over confidence: bars on the diagonal are honest, below it too confident; a histogram lies under them.

    Attributes:
        bins: those that have pixels, the least confident first.
        clean: the same on clean images, drawn as a line; empty where the chart is of clean images.
        note: the figures, printed inside.
    """

    bins: Sequence[ConfidenceBin] = ()
    clean: Sequence[ConfidenceBin] = ()
    note: str = ""


def opacity(relative: float) -> float:
    """How solid a bar of a reliability diagram is: a bin with few of the pixels is pale, but can be seen."""
    return round(0.25 + 0.75 * relative, 2)


@dataclass(frozen=True)
class Panel:
    """A place for a chart, and the charts that can be shown there.

    Attributes:
        id: short, unique in a document, safe in an address.
        title: one line.
        caption: how to read it.
        charts: by the name under which a reader chooses.
        choice: what is chosen ("threat", "model"); unused for one chart.
    """

    id: str
    title: str
    caption: str
    charts: dict[str, Chart]
    choice: str = ""

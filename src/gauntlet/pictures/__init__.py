"""Pictures: label maps in colour, boxes with names and scores, differences, sheets of captioned tiles."""

from gauntlet.pictures.arrays import Color, Image, amplified_difference, enlarge, from_tensor
from gauntlet.pictures.box_frames import box_colors, draw_boxes
from gauntlet.pictures.label_maps import color_labels, palette, wrong_pixels
from gauntlet.pictures.sheets import Tile, sheet

__all__ = [
    "Color",
    "Image",
    "Tile",
    "amplified_difference",
    "box_colors",
    "color_labels",
    "draw_boxes",
    "enlarge",
    "from_tensor",
    "palette",
    "sheet",
    "wrong_pixels",
]

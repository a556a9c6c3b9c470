// Colours of factors, of categories and of numbers, the same in the map, the panel and the legends.

// One palette for factors and classes. The first eight are those of the report (report.css) and of the pictures.
const PALETTE = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#d55e00",
  "#56b4e9",
  "#cc79a7",
  "#b8a600",
  "#555555",
  "#9c755f",
  "#7b8fd1",
  "#c26f3d",
  "#5c9ead",
];
const SCALE = ["#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"].map(parse); // viridis
export const MOST_CLASSES = PALETTE.length;

/** Colour of a factor by its number, or of a class by its rank. */
export const nth = (k) => PALETTE[k] ?? spread(k);

/** Hues a golden angle apart: as many colours as it takes, neighbours in number far apart in hue. */
function spread(k) {
  return hex(hue((k * 137.508) % 360, 0.5, 0.52));
}

function hue(degrees, saturation, lightness) {
  const amplitude = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((shift) => {
    const at = (shift + degrees / 30) % 12;
    return Math.round(255 * (lightness - amplitude * Math.max(-1, Math.min(at - 3, 9 - at, 1))));
  });
}

export function parse(text) {
  const value = Number.parseInt(text.trim().slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

function hex(rgb) {
  return `#${rgb.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/** Colour of a number between 0 and 1. */
export function shade(share) {
  const at = Math.max(0, Math.min(share, 1)) * (SCALE.length - 1);
  const low = Math.min(Math.floor(at), SCALE.length - 2);
  return SCALE[low].map((part, i) => Math.round(part + (at - low) * (SCALE[low + 1][i] - part)));
}

export const gradient = () => `linear-gradient(90deg, ${SCALE.map(hex).join(", ")})`;
export const shadeText = (share) => hex(shade(share));
export const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

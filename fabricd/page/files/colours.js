// Scales that people who see few colours can read, too: brightness alone tells what is more.

const SCALE_STOPS = {
  // Cividis, from its middle on where the ground is dark, so that little is still seen; turned where it is light.
  dark: ["#35456c", "#4a567a", "#666970", "#7c7b78", "#948e77", "#aea371", "#c8b866", "#e5cf52", "#fee838"],
  light: ["#b9c0cc", "#9aa3b8", "#7d89a6", "#657298", "#505d88", "#3f4c79", "#2f3d6b", "#1d2f5f", "#00224e"],
};
// Okabe and Ito, without black, and a second, paler round of them.
const PALETTE = [
  "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#0072b2", "#d55e00",
  "#9fd5f3", "#f3cd80", "#7fceb9", "#e5bcd3", "#b8ae2c", "#7fb8d8", "#eaae7f",
];

// From what is the same to what is far off, in blue and orange, which all eyes tell apart.
const DIFFERENCE_STOPS = {
  dark: { less: ["#2d5170", "#4289bd", "#7cccff"], more: ["#6e4a26", "#c07a28", "#ffc46b"] },
  light: { less: ["#a9c6e3", "#4f8fca", "#084a91"], more: ["#ecc79c", "#d07f2b", "#8a3a00"] },
};

export const BUCKETS = 24;
/** The bucket of what is not drawn. */
export const HIDDEN = 255;

function parse(colour) {
  return [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16));
}

/** Colours of a scale, from little to much. */
export const scale = theme => shades(SCALE_STOPS[theme]);

/** Colours of what is less and of what is more, from little to much. */
export function diverging(theme) {
  const { less, more } = DIFFERENCE_STOPS[theme];
  return { less: shades(less), more: shades(more) };
}

function shades(named) {
  const stops = named.map(parse);
  return Array.from({ length: BUCKETS }, (_, i) => {
    const x = (i / (BUCKETS - 1)) * (stops.length - 1), low = Math.min(stops.length - 2, Math.floor(x)), part = x - low;
    const mixed = stops[low].map((v, k) => Math.round(v + (stops[low + 1][k] - v) * part));
    return `rgb(${mixed.join(",")})`;
  });
}

/** The colour of the job, host or tree with this number. */
export function named(number) {
  return PALETTE[number % PALETTE.length];
}

/** Colours of the ground and of what stands on it. */
export function grounds(theme) {
  return theme === "dark"
    ? { ground: "#0d1117", idle: "#2a3542", node: "#5b6774", elsewhere: "#1c232c", text: "#e6edf3", soft: "#9aa7b4", bad: "#ff5a52", warn: "#ffa657", chosen: "#ffffff", grid: "#2b3440" }
    : { ground: "#f6f8fa", idle: "#d9dfe6", node: "#8b96a2", elsewhere: "#e9edf1", text: "#1b232c", soft: "#56626e", bad: "#d1242f", warn: "#9a4a00", chosen: "#000000", grid: "#d5dbe2" };
}

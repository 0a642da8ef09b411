// Lines and squares by the hundred thousand: painted into a picture of our own, which takes a canvas ten times as long.

/** A colour as the 32 bits of a pixel, which stand in memory as red, green, blue and alpha. */
export function pixel(colour) {
  const found = colour.startsWith("#") ? [1, 3, 5].map(i => parseInt(colour.slice(i, i + 2), 16)) : colour.match(/\d+/g).map(Number);
  return 255 << 24 | found[2] << 16 | found[1] << 8 | found[0];
}

/** Takes so many 256ths of a colour; red and blue go together, green alone, so that none reaches into another. */
function mix(pixels, at, colour, part) {
  const old = pixels[at], rb = old & 0xff00ff, g = old & 0xff00;
  const both = rb + (Math.imul((colour & 0xff00ff) - rb, part) >> 8), green = g + (Math.imul((colour & 0xff00) - g, part) >> 8);
  pixels[at] = 0xff000000 | (both & 0xff00ff) | (green & 0xff00);
}

export class Raster {
  /** An empty picture, for a canvas of this size. */
  begin(pen, wide, high, ground) {
    if (!this.image || this.wide !== wide || this.high !== high) {
      this.image = pen.createImageData(wide, high);
      this.pixels = new Int32Array(this.image.data.buffer);
      [this.wide, this.high] = [wide, high];
    }
    this.pixels.fill(ground);
  }

  end(pen) {
    pen.putImageData(this.image, 0, 0);
  }

  /** A line with soft edges, `thick` pixels wide. */
  line(x0, y0, x1, y1, thick, colour) {
    const { wide, high } = this;
    if (Math.abs(x1 - x0) >= Math.abs(y1 - y0)) this.steps(x0, y0, x1, y1, thick, colour, wide, high, 1, wide);
    else this.steps(y0, x0, y1, x1, thick, colour, high, wide, wide, 1);
  }

  /** From u0 to u1, a step a pixel; v changes less than u. A step of u or v is so far in memory as `du` or `dv` say. */
  steps(u0, v0, u1, v1, thick, colour, most, across, du, dv) {
    if (u1 < u0) return this.steps(u1, v1, u0, v0, thick, colour, most, across, du, dv);
    const { pixels } = this, slope = u1 > u0 ? (v1 - v0) / (u1 - u0) : 0, half = thick * Math.sqrt(1 + slope * slope) / 2;
    const first = u0 > 0 ? (u0 + 0.5) | 0 : 0, last = Math.max(first + 1, (u1 + 0.5) | 0), end = last < most ? last : most;
    let low = v0 + (first + 0.5 - u0) * slope - half, at = first * du;
    for (let u = first; u < end; u++, low += slope, at += du) {
      const high = low + 2 * half;
      if (low < 0 || high >= across) continue;
      const a = low | 0, b = high | 0;
      if (a === b) {
        mix(pixels, at + a * dv, colour, (256 * (high - low)) | 0);
        continue;
      }
      mix(pixels, at + a * dv, colour, (256 * (a + 1 - low)) | 0);
      for (let v = a + 1; v < b; v++) pixels[at + v * dv] = colour;
      mix(pixels, at + b * dv, colour, (256 * (high - b)) | 0);
    }
  }

  /** A square around a place. */
  square(x, y, half, colour) {
    const { pixels, wide, high } = this;
    const left = Math.max(0, Math.round(x - half)), right = Math.min(wide, Math.round(x + half));
    const top = Math.max(0, Math.round(y - half)), foot = Math.min(high, Math.round(y + half));
    for (let row = top; row < foot; row++) for (let at = row * wide + left, end = row * wide + right; at < end; at++) pixels[at] = colour;
  }
}

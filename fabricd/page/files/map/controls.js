// What chooses between torus and map, the pair of dimensions, and slices.

import { make } from "../panel.js";
import { letterOf, othersOf, pairName, pairOf, pairsOf } from "./layout.js";

const control = id => document.getElementById(id);

/** Wires the controls; returns what puts them as the view is. */
export function mapControls(view, again) {
  const { torus } = view, pair = control("pair"), slices = control("slices");
  pair.append(...pairsOf(torus).map(one => new Option(torus.dims.length === 1 ? "X" : one.map(letterOf).join(" × "), pairName(one))));
  const show = () => {
    const isMap = view.layout === "map";
    document.querySelector(`[name=layout][value=${view.layout}]`).checked = true;
    control("maps").hidden = !isMap;
    control("fourth").hidden = isMap || torus.dims.length < 4;
    control("spin").parentElement.hidden = isMap;
    control("drags").textContent = isMap ? "drag to move" : "drag to turn";
    pair.value = pairName(view.pair);
    slices.replaceChildren(...othersOf(torus, view.pair).map(d => {
      const press = () => view.slice(d, choice.value === "all" ? null : Number(choice.value));
      const places = Array.from({ length: torus.size[d] }, (_, i) => new Option(`${letterOf(d)}=${i}`, i));
      const choice = make("select", { "aria-label": `Slice of ${letterOf(d)}`, "data-slice": letterOf(d), onchange: press }, new Option(`all ${letterOf(d)}`, "all"), ...places);
      choice.value = view.fixed[d] ?? "all";
      return choice;
    }));
  };
  for (const input of document.querySelectorAll("[name=layout]")) input.addEventListener("change", () => view.lay(input.value));
  pair.addEventListener("change", () => view.lay("map", pairOf(torus, pair.value)));
  view.laid = () => {
    show();
    again();
  };
  show();
}

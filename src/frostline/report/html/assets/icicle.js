"use strict";
// What a pointer that rests on a box of an icicle is told, for the keyboard and for a finger too. Loads nothing.
document.querySelectorAll(".scroll").forEach((place) => {
  const boxes = Array.from(place.querySelectorAll("g")), told = place.nextElementSibling;
  const rects = boxes.map((box) => box.firstElementChild);
  const left = (i) => rects[i].x.baseVal.value, wide = (i) => rects[i].width.baseVal.value;
  const level = (i) => rects[i].y.baseVal.value, above = (i) => Number(boxes[i].dataset.up);
  const levels = new Map(), below = boxes.map(() => -1);
  boxes.forEach((box, i) => {
    if (!levels.has(level(i))) levels.set(level(i), []);
    levels.get(level(i)).push(i);
    const up = above(i);
    if (up >= 0 && (below[up] < 0 || wide(i) > wide(below[up]))) below[up] = i;
  });
  levels.forEach((some) => some.sort((a, b) => left(a) - left(b)));
  let here = -1;
  function go(i) {
    if (i === undefined || i < 0) return;
    if (here >= 0) boxes[here].classList.remove("here");
    here = i;
    boxes[i].classList.add("here");
    boxes[i].parentNode.append(boxes[i]);  // its edge over its neighbours'
    told.textContent = rects[i].firstElementChild.textContent.split("\n").join("; ");
    const box = boxes[i].getBoundingClientRect(), view = place.getBoundingClientRect();
    if (box.left < view.left || box.right > view.right) place.scrollLeft += box.left - view.left - 20;
  }
  function beside(by) {
    const some = levels.get(level(here));
    return some[some.indexOf(here) + by];
  }
  const keys = {
    ArrowDown: () => below[here], ArrowUp: () => above(here),
    ArrowRight: () => beside(1), ArrowLeft: () => beside(-1), Home: () => 0,
  };
  place.setAttribute("role", "application");
  place.addEventListener("focus", () => { if (here < 0) go(0); });
  place.addEventListener("keydown", (event) => {
    if (!(event.key in keys) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    go(here < 0 ? 0 : keys[event.key]());
  });
  place.addEventListener("click", (event) => go(boxes.indexOf(event.target.closest("g"))));
});

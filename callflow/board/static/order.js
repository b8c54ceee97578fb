// Where rows stand. None moves while somebody points at one or has the keyboard in one: rows that
// come go to the end meanwhile, rows that go stay, and the page says that the order is held.

const IDLE_MS = 60000;
// A mouse that lies on the table all night must not hide what is urgent under what is not.

export class Order {
  constructor(body, held, leaves) {
    this.body = body;
    this.held = held;
    this.leaves = leaves; // is told of each row that is taken away
    this.over = false;
    this.touched = -Infinity;
    const touch = () => {
      this.touched = performance.now();
    };
    body.addEventListener("pointerenter", (event) => {
      this.over = event.pointerType !== "touch";
      touch();
    });
    body.addEventListener("pointerleave", () => {
      this.over = false;
      this.changed();
    });
    body.addEventListener("focusout", () => setTimeout(() => this.changed()));
    for (const kind of ["pointermove", "focusin"]) body.addEventListener(kind, touch);
    for (const kind of ["keydown", "wheel"]) {
      document.addEventListener(kind, touch, { passive: true });
    }
    this.changed = () => {};
  }

  // True while nothing may move.
  get holds() {
    const here = this.over || this.body.contains(document.activeElement);
    return here && performance.now() - this.touched < IDLE_MS;
  }

  // Bring the rows into the order of `sids`; those that are not among them are taken away. The row
  // that has the focus is never moved, but the others around it: a moved one would lose it.
  apply(rows, sids) {
    const wanted = new Set(sids);
    for (const [sid, tr] of rows) {
      if (!wanted.has(sid)) {
        if (tr.contains(document.activeElement)) {
          (tr.nextElementSibling ?? tr.previousElementSibling)?.querySelector("a").focus();
        }
        tr.remove();
        this.leaves(tr);
        rows.delete(sid);
      }
    }
    const target = sids.map((sid) => rows.get(sid));
    const focused = target.findIndex((tr) => tr.contains(document.activeElement));
    const fixed = focused < 0 ? null : target[focused];
    const top = fixed?.getBoundingClientRect().top;
    let next = fixed;
    for (const tr of fixed ? target.slice(0, focused).reverse() : []) {
      if (next.previousElementSibling !== tr) next.before(tr);
      next = tr;
    }
    this.follow(fixed, fixed ? target.slice(focused + 1) : target);
    if (fixed) window.scrollBy(0, fixed.getBoundingClientRect().top - top);
    this.tell(false);
  }

  // Each of `rest` behind the one before it, the first behind `last`; who stands right stays.
  follow(last, rest) {
    let before = last;
    for (const tr of rest) {
      const next = before ? before.nextElementSibling : this.body.firstElementChild;
      if (next !== tr) this.body.insertBefore(tr, next);
      before = tr;
    }
  }

  tell(differs) {
    if (this.held.hidden !== !differs) this.held.hidden = !differs;
  }
}

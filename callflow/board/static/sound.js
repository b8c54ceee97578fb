// Two tones, again and again, while there is a life at risk of which this person has not said that
// they have seen it. Browsers play nothing before somebody has touched the page: the button says so.

const EVERY_MS = 2500;
const KEY = "callflow-muted";

export class Alarm {
  constructor(button, w) {
    this.button = button;
    this.w = w;
    this.context = null;
    this.wanted = false;
    this.unlocking = null;
    this.muted = localStorage.getItem(KEY) === "yes";
    button.hidden = false;
    button.addEventListener("click", () => this.press());
    const wake = (event) => this.unlock(event);
    for (const kind of ["pointerdown", "keydown"]) document.addEventListener(kind, wake);
    setInterval(() => this.ring(), EVERY_MS);
    this.tell();
  }

  get blocked() {
    return this.context === null || this.context.state !== "running";
  }

  // The first touch of the page allows sound.
  unlock(event) {
    this.unlocking = null;
    if (!this.blocked) return;
    this.unlocking = event.type === "keydown" || this.button.contains(event.target) ? event.type : null;
    this.context ??= new AudioContext();
    if (this.context.state === "suspended") this.context.resume().then(() => this.tell());
    this.tell();
  }

  // A press that has just allowed the sound was meant to: the next one mutes it.
  press() {
    if (this.muted || this.unlocking === null) this.muted = !this.muted;
    this.unlocking = null;
    localStorage.setItem(KEY, this.muted ? "yes" : "no");
    this.tell();
  }

  set(wanted) {
    const begins = wanted && !this.wanted;
    this.wanted = wanted;
    this.tell();
    if (begins) this.ring();
  }

  ring() {
    if (!this.wanted || this.muted || this.blocked) return;
    const start = this.context.currentTime;
    for (const [at, hertz] of [[0, 880], [0.22, 660]]) {
      const tone = this.context.createOscillator();
      const loudness = this.context.createGain();
      tone.frequency.value = hertz;
      loudness.gain.setValueAtTime(0.0001, start + at);
      loudness.gain.exponentialRampToValueAtTime(0.25, start + at + 0.02);
      loudness.gain.exponentialRampToValueAtTime(0.0001, start + at + 0.2);
      tone.connect(loudness).connect(this.context.destination);
      tone.start(start + at);
      tone.stop(start + at + 0.21);
    }
  }

  tell() {
    const state = this.muted ? "off" : this.blocked ? "blocked" : "on";
    this.button.textContent = this.w(`board.sound_${state}`);
    this.button.setAttribute("aria-pressed", String(!this.muted));
    document.body.dataset.alarm = !this.wanted ? "silent" : state === "on" ? "sounds" : state;
  }
}

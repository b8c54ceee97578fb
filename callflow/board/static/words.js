// The words of the page's language: the server has put their table into the page.

export function catalogue(json) {
  const table = JSON.parse(json);
  return (name, shown = {}) => {
    const words = table[name];
    if (words === undefined) return name.split(".").pop().replaceAll("_", " ");
    return words.replace(/\{(\w+)\}/g, (whole, key) => (key in shown ? String(shown[key]) : whole));
  };
}

// `0:34`, `12:05`, `1:02:03`: for what is counted in seconds.
export function clock(ms) {
  const all = Math.floor(Math.max(0, ms) / 1000);
  const two = (number) => String(number).padStart(2, "0");
  const [hours, minutes, seconds] = [Math.floor(all / 3600), Math.floor(all / 60) % 60, all % 60];
  return hours ? `${hours}:${two(minutes)}:${two(seconds)}` : `${minutes}:${two(seconds)}`;
}

// `0.3 s` below ten seconds, `12 s` below a hundred, then as `clock`.
export function age(ms) {
  const past = Math.max(0, ms);
  if (past < 10000) return `${(Math.floor(past / 100) / 10).toFixed(1)} s`;
  return past < 100000 ? `${Math.floor(past / 1000)} s` : clock(past);
}

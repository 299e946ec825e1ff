// Figures in the command line's units and digits (solver/base/units.h).

export type Unit =
  "bytes" | "seconds" | "rate" | "percent" | "excess" | "count" | "duration" | "text";

// As printf's "%.*f": a tie goes to the even digit, where toFixed() takes the larger number.
function fixed(value: number, digits: number): string {
  const rounded = value.toFixed(digits);
  const exact = value.toFixed(100);
  const kept = exact.slice(0, exact.length - 100 + digits);
  const isTie = /^50*$/.test(exact.slice(kept.length));
  return isTie && "02468".includes(kept.slice(-1)) ? kept : rounded;
}

function scaled(
  value: number,
  step: number,
  carry: number,
  names: string[],
  digits: number,
): string {
  let power = 0;
  for (; value >= carry && power + 1 < names.length; ++power) value /= step;
  return `${fixed(value, digits)} ${names[power]}`;
}

// "9.76 GiB", "512 B".
export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return scaled(bytes, 1024, 1023.995, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 2);
}

// "417.1 ms", "2.500 s", "0 s".
export function formatSeconds(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 0.99995e-6) return `${fixed(seconds * 1e9, 1)} ns`;
  if (seconds < 0.99995e-3) return `${fixed(seconds * 1e6, 1)} us`;
  if (seconds < 0.99995) return `${fixed(seconds * 1e3, 1)} ms`;
  return `${fixed(seconds, 3)} s`;
}

export function formatRate(perSecond: number): string {
  return scaled(perSecond, 1000, 999.95, ["B/s", "KB/s", "MB/s", "GB/s", "TB/s"], 1);
}

// "412.5/s", as `stowage top` has it.
export function formatPerSecond(count: number, seconds: number): string {
  const rate = seconds > 0 ? count / seconds : 0;
  return `${fixed(rate, rate < 9999.95 ? 1 : 0)}/s`;
}

// "2 d 3 h", "35 s": how long something has lasted.
export function formatDuration(seconds: number): string {
  const whole = Math.floor(Math.max(seconds, 0));
  if (whole >= 86400)
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  if (whole >= 60) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${whole} s`;
}

export function formatPercent(fraction: number): string {
  return `${fixed(fraction * 100, 1)} %`;
}

export function format(value: number | string, unit: Unit): string {
  const number = Number(value);
  switch (unit) {
    case "bytes":
      return formatBytes(number);
    case "seconds":
      return formatSeconds(number);
    case "rate":
      return formatRate(number);
    case "percent":
      return formatPercent(number);
    case "excess":
      return (number < 0 ? "" : "+") + formatPercent(number);
    case "duration":
      return formatDuration(number);
    case "count":
    case "text":
      return String(value);
  }
}

// Labels of an axis: its ticks are round, so zeros at the end say nothing.
function withoutZeros(text: string): string {
  return text.replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
}
export function tickBytes(bytes: number): string {
  return withoutZeros(formatBytes(bytes));
}
export function tickSeconds(seconds: number): string {
  return seconds === 0 ? "0" : withoutZeros(formatSeconds(Number(seconds.toPrecision(9))));
}

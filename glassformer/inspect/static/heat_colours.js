// Colours of weights over a picture: black, purple, red, orange, yellow, at equal steps.

const HEAT = [[0, 0, 4], [107, 24, 110], [221, 81, 58], [252, 165, 10], [252, 255, 164]];

function heatColour(share) {
  const place = Math.max(0, Math.min(share, 1)) * (HEAT.length - 1);
  const low = Math.min(Math.floor(place), HEAT.length - 2);
  return HEAT[low].map((value, n) => Math.round(value + (HEAT[low + 1][n] - value) * (place - low)));
}

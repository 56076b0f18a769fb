// The arithmetic of the model in the page: rows of numbers in Float32Arrays, sums in double.
// A matrix product reads each weight once for several rows, and nothing is allocated in a loop.

// How many multiplications products of matrices have taken so far: one addition for each call.
const multiplications = { weights: 0, scores: 0, values: 0 };

// out = x · weightᵀ + bias for the rows from `first` to `last`; weight is (width, depth), by rows.
function linear(out, x, first, last, weight, bias, width, depth) {
  multiplications.weights += (last - first) * width * depth;
  let column = 0;
  for (; column + 3 < width; column += 4) {
    let row = first;
    for (; row + 1 < last; row += 2) fourColumnsTwoRows(out, x, row, weight, bias, width, depth, column);
    if (row < last) fourColumns(out, x, row, weight, bias, width, depth, column);
  }
  for (; column < width; column += 1) {
    const start = bias === null ? 0 : bias[column];
    for (let row = first; row < last; row += 1) {
      out[row * width + column] = start + dotAt(x, row * depth, weight, column * depth, depth);
    }
  }
}

function fourColumnsTwoRows(out, x, row, weight, bias, width, depth, column) {
  const upper = row * depth, lower = upper + depth;
  const a = column * depth, b = a + depth, c = b + depth, d = c + depth;
  let a0 = 0, b0 = 0, c0 = 0, d0 = 0, a1 = 0, b1 = 0, c1 = 0, d1 = 0;
  for (let k = 0; k < depth; k += 1) {
    const x0 = x[upper + k], x1 = x[lower + k];
    const wa = weight[a + k], wb = weight[b + k], wc = weight[c + k], wd = weight[d + k];
    a0 += x0 * wa; b0 += x0 * wb; c0 += x0 * wc; d0 += x0 * wd;
    a1 += x1 * wa; b1 += x1 * wb; c1 += x1 * wc; d1 += x1 * wd;
  }
  const place = row * width + column, next = place + width;
  if (bias !== null) {
    a0 += bias[column]; b0 += bias[column + 1]; c0 += bias[column + 2]; d0 += bias[column + 3];
    a1 += bias[column]; b1 += bias[column + 1]; c1 += bias[column + 2]; d1 += bias[column + 3];
  }
  out[place] = a0; out[place + 1] = b0; out[place + 2] = c0; out[place + 3] = d0;
  out[next] = a1; out[next + 1] = b1; out[next + 2] = c1; out[next + 3] = d1;
}

function fourColumns(out, x, row, weight, bias, width, depth, column) {
  const upper = row * depth;
  const a = column * depth, b = a + depth, c = b + depth, d = c + depth;
  let a0 = 0, b0 = 0, c0 = 0, d0 = 0;
  for (let k = 0; k < depth; k += 1) {
    const x0 = x[upper + k];
    a0 += x0 * weight[a + k]; b0 += x0 * weight[b + k];
    c0 += x0 * weight[c + k]; d0 += x0 * weight[d + k];
  }
  const place = row * width + column;
  if (bias !== null) {
    a0 += bias[column]; b0 += bias[column + 1]; c0 += bias[column + 2]; d0 += bias[column + 3];
  }
  out[place] = a0; out[place + 1] = b0; out[place + 2] = c0; out[place + 3] = d0;
}

// The dot product of `length` numbers of a, from place i on, and of b, from place j on.
function dotAt(a, i, b, j, length) {
  let sum = 0;
  for (let k = 0; k < length; k += 1) sum += a[i + k] * b[j + k];
  return sum;
}

// The numbers from `start` on become shares that sum to one.
function softmaxOf(values, start, length) {
  let largest = -Infinity, sum = 0;
  for (let n = start; n < start + length; n += 1) if (values[n] > largest) largest = values[n];
  for (let n = start; n < start + length; n += 1) {
    const share = Math.exp(values[n] - largest);
    values[n] = share;
    sum += share;
  }
  for (let n = start; n < start + length; n += 1) values[n] /= sum;
  return values;
}

// (x - mean) / √(variance + ε) · weight + bias for groups of `width` numbers, from group `first`.
function layerNorm(out, x, first, last, { weight, bias, eps, width }) {
  for (let group = first; group < last; group += 1) {
    const start = group * width;
    let mean = 0, variance = 0;
    for (let k = 0; k < width; k += 1) mean += x[start + k];
    mean /= width;
    for (let k = 0; k < width; k += 1) variance += (x[start + k] - mean) ** 2;
    const factor = 1 / Math.sqrt(variance / width + eps);
    for (let k = 0; k < width; k += 1) {
      out[start + k] = (x[start + k] - mean) * factor * weight[k] + (bias === null ? 0 : bias[k]);
    }
  }
}

// x / √(mean(x²) + ε) · weight
function rmsNorm(out, x, first, last, { weight, eps, width }) {
  for (let group = first; group < last; group += 1) {
    const start = group * width;
    let squares = 0;
    for (let k = 0; k < width; k += 1) squares += x[start + k] ** 2;
    const factor = 1 / Math.sqrt(squares / width + eps);
    for (let k = 0; k < width; k += 1) out[start + k] = x[start + k] * factor * weight[k];
  }
}

// The error function: its values at multiples of 1/64, and a cubic between two of them.
const ERF_STEPS = 64, ERF_END = 6; // beyond, it is 1 in double precision
const erfTable = (() => {
  const values = new Float64Array(ERF_STEPS * ERF_END + 1);
  for (let n = 0; n < values.length; n += 1) {
    const x = n / ERF_STEPS;
    let term = x, sum = 0; // e^(-x²) · Σ 2ⁿ x^(2n+1) / (1 · 3 · … · (2n+1)): no term is negative
    for (let odd = 3; term > sum * 1e-17; odd += 2) {
      sum += term;
      term *= (2 * x * x) / odd;
    }
    values[n] = (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
  }
  return values;
})();
const erfSlopes = erfTable.map((_, n) => {
  return (2 / Math.sqrt(Math.PI) / ERF_STEPS) * Math.exp(-((n / ERF_STEPS) ** 2)); // per step
});

function erf(x) {
  const place = Math.abs(x) * ERF_STEPS, n = Math.floor(place);
  if (!(n < ERF_STEPS * ERF_END)) return Math.sign(x);
  const t = place - n, rest = 1 - t;
  const y = rest * rest * ((1 + 2 * t) * erfTable[n] + t * erfSlopes[n])
    + t * t * ((3 - 2 * t) * erfTable[n + 1] - rest * erfSlopes[n + 1]);
  return x < 0 ? -y : y;
}

const ACTIVATIONS = {
  gelu: (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2)),
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  relu: (x) => (x > 0 ? x : 0),
  quick_gelu: (x) => x / (1 + Math.exp(-1.702 * x)),
  silu: (x) => x / (1 + Math.exp(-x)),
  tanh: Math.tanh,
  swiglu: (x) => x / (1 + Math.exp(-x)), // of the gate
};

function activate(values, name, first, last) {
  const activation = ACTIVATIONS[name];
  for (let n = first; n < last; n += 1) values[n] = activation(values[n]);
}

// sin and cos of position · frequency, (positions, frequencies) each; in single precision, like
// Python's: at position 1000 the rounding of an angle matters.
function angles(frequencies, first, last) {
  const size = (last - first) * frequencies.length;
  const sin = new Float32Array(size), cos = new Float32Array(size);
  for (let position = first, n = 0; position < last; position += 1) {
    for (const frequency of frequencies) {
      const angle = Math.fround(position * frequency);
      sin[n] = Math.sin(angle);
      cos[n++] = Math.cos(angle);
    }
  }
  return { sin, cos };
}

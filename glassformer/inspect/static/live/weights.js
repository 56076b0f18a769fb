// Weights that the page carries (inspect/live.py): the bytes of each kind of number are split
// into planes, compressed and written as base64. Nothing is loaded from anywhere.

async function unpackWeights({ parts, aliases }) {
  const weights = new Map();
  for (const { dtype, tensors, data } of parts) {
    const numbers = numbersOf(dtype, await unzipped(data));
    let place = 0;
    for (const [name, shape] of tensors) {
      const size = shape.reduce((a, b) => a * b, 1);
      weights.set(name, { data: numbers.subarray(place, place + size), shape });
      place += size;
    }
  }
  for (const [name, { data, shape: [rows] }] of weights) { // of whole numbers: a factor for each row
    if (!name.endsWith("/scale")) continue;
    const whole = weights.get(name.slice(0, -"/scale".length)).data, width = whole.length / rows;
    for (let n = 0; n < whole.length; n += 1) whole[n] *= data[Math.floor(n / width)];
    weights.delete(name);
  }
  for (const [name, other] of Object.entries(aliases)) weights.set(name, weights.get(other));
  return weights;
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let n = 0; n < bytes.length; n += 1) bytes[n] = text.charCodeAt(n);
  return bytes;
}

async function unzipped(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const BYTES_OF = { float32: 4, float16: 2, int16: 2, int8: 1 };

// Planes of bytes, the lowest first, to numbers.
function numbersOf(dtype, planes) {
  const count = planes.length / BYTES_OF[dtype];
  const numbers = new Float32Array(count);
  if (dtype === "int8") numbers.set(new Int8Array(planes.buffer));
  else if (dtype === "float16") {
    const table = halfTable();
    for (let n = 0; n < count; n += 1) numbers[n] = table[planes[n] | (planes[count + n] << 8)];
  } else if (dtype === "int16") {
    for (let n = 0; n < count; n += 1) numbers[n] = ((planes[n] | (planes[count + n] << 8)) << 16) >> 16;
  } else {
    const bytes = new Uint8Array(numbers.buffer); // every browser's machine is little-endian
    for (let n = 0; n < count; n += 1) {
      for (let plane = 0; plane < 4; plane += 1) bytes[4 * n + plane] = planes[plane * count + n];
    }
  }
  return numbers;
}

// The value of each of the 65,536 halves: sign, five bits of exponent, ten of fraction.
function halfTable() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    return sign * (1024 + fraction) * 2 ** (exponent - 25);
  });
}

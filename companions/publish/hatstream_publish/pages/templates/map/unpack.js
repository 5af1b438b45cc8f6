// The page's data: what hatstream_publish/pages/pack.py packed, as typed arrays.

const NONE = 65535, NO_CODE = 255;

async function unpacked(stream) {
  const plain = new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  const headEnds = plain.indexOf(10);
  const data = JSON.parse(new TextDecoder().decode(plain.subarray(0, headEnds)));
  data.of = readArrays(data.arrays, plain, headEnds + 1);
  data.shapes = readShapes(data.of, "places", data.degree);
  data.groundShapes = readShapes(data.of, "ground", data.degree);
  data.usual = data.of["usual.value"];
  data.usualIsArea = data.of["usual.area"];
  data.vehicles = data.of.vehicles;
  for (const layer of data.layers) {
    for (const part of ["value", "below", "above", "code"]) layer[part] = data.of[`${layer.arrays}.${part}`];
  }
  return data;
}

function readArrays(listed, bytes, start) {
  const types = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array };
  const arrays = {};
  for (const [name, type, size] of listed) {
    const width = Number(type[1]), array = new types[type](size);
    for (let byte = 0; byte < width; byte++) {
      for (let at = 0; at < size; at++) array[at] |= bytes[start + byte * size + at] << (8 * byte);
    }
    arrays[name] = array;
    start += width * size;
  }
  return arrays;
}

// Positions on the Mercator square, [0, 1] both ways, with the box around each shape.
function readShapes(of, name, degree) {
  const line = of[`${name}.line`], parts = of[`${name}.parts`], positions = of[`${name}.positions`];
  const size = of[`${name}.x`].length, x = new Float64Array(size), y = new Float64Array(size);
  let lon = 0, lat = 0;
  for (let at = 0; at < size; at++) {
    lon += of[`${name}.x`][at];
    lat += of[`${name}.y`][at];
    x[at] = mercatorX(lon / degree);
    y[at] = mercatorY(lat / degree);
  }
  const shapes = [];
  let part = 0, start = 0;
  for (let shape = 0; shape < line.length; shape++) {
    const ends = [], begins = start;
    for (let own = 0; own < parts[shape]; own++) ends.push(start += positions[part++]);
    shapes.push({ isLine: line[shape] === 1, begins, ends, box: boxOf(x, y, begins, start) });
  }
  return { x, y, shapes };
}

function boxOf(x, y, begins, ends) {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = begins; at < ends; at++) {
    box[0] = Math.min(box[0], x[at]);
    box[1] = Math.min(box[1], y[at]);
    box[2] = Math.max(box[2], x[at]);
    box[3] = Math.max(box[3], y[at]);
  }
  return box;
}

const mercatorX = lon => lon / 360 + 0.5;
function mercatorY(lat) {
  const sine = Math.sin(Math.max(-85, Math.min(85, lat)) * Math.PI / 180);
  return 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI);
}
const longitude = x => (x - 0.5) * 360;
const latitude = y => Math.atan(Math.sinh((0.5 - y) * 2 * Math.PI)) * 180 / Math.PI;

//! Copies of boxes of tensors, and reductions of bulk copies, beside boxes that the host
//! copies element by element.

use ptxkit::cpu::{CompileOptions, Vectorization, compile};
use ptxkit::driver::api::TensorMap;
use ptxkit::driver::{Context, DeviceBuffer, DriverKind, LaunchConfig, Module, Stream};

use crate::kernels::device;

const THREADS: u32 = 64;

/// A tensor, and how its boxes are copied. Dimension 0 is contiguous.
#[derive(Clone)]
struct Tensor {
    /// The number of the type in the driver API, and the bytes of an element.
    element: (u32, usize),
    dims: Vec<u64>,
    /// Bytes of a line; the other dimensions follow without gaps.
    pitch: u64,
    boxes: Vec<u32>,
    element_strides: Vec<u32>,
    swizzle: u32,
    fill: u32,
    /// Columns of pixels are copied, not boxes: the corners of an image, the width's first, and
    /// the pixels of a column. The box has the channels.
    columns: Option<(Vec<[i32; 2]>, u32)>,
}

const U16: (u32, usize) = (1, 2);
const U32: (u32, usize) = (2, 4);
const F16: (u32, usize) = (6, 2);
const F32: (u32, usize) = (7, 4);
const U8: (u32, usize) = (0, 1);

impl Tensor {
    fn new(element: (u32, usize), dims: &[u64], boxes: &[u32]) -> Tensor {
        let line = dims[0] * element.1 as u64;
        Tensor {
            element,
            dims: dims.to_vec(),
            pitch: line.next_multiple_of(16),
            boxes: boxes.to_vec(),
            element_strides: vec![1; dims.len()],
            swizzle: 0,
            fill: 0,
            columns: None,
        }
    }

    fn rank(&self) -> usize {
        self.dims.len()
    }

    fn stride(&self, dimension: usize) -> u64 {
        let lines = &self.dims[1..dimension.max(1)];
        self.pitch * lines.iter().product::<u64>()
    }

    fn bytes(&self) -> usize {
        self.stride(self.rank()) as usize
    }

    /// Every how many elements one is copied. Along a line there are no gaps.
    fn step(&self, dimension: usize) -> u32 {
        match dimension {
            0 => 1,
            _ => self.element_strides[dimension],
        }
    }

    /// Elements of a box along a dimension.
    fn count(&self, dimension: usize) -> u32 {
        self.boxes[dimension].div_ceil(self.step(dimension))
    }

    fn box_bytes(&self) -> usize {
        let counts = (0..self.rank()).map(|n| self.count(n) as usize);
        counts.product::<usize>() * self.element.1
    }

    /// For each element of the box at `coordinates`: its place in shared memory, and in the
    /// tensor, if it is inside.
    fn places(&self, coordinates: &[i32]) -> Vec<(usize, Option<usize>)> {
        let size = self.element.1;
        let total = self.box_bytes() / size;
        let pattern = (1 << self.swizzle) - 1;
        let place = |number: usize| {
            let mut rest = number as u32;
            let mut at = Some(0);
            for (n, &first) in coordinates.iter().enumerate() {
                let index = rest % self.count(n) * self.step(n);
                rest /= self.count(n);
                let coordinate = i64::from(first) + i64::from(index);
                let inside = (0..self.dims[n] as i64).contains(&coordinate);
                let stride = if n == 0 { size as u64 } else { self.stride(n) };
                at = at
                    .filter(|_| inside)
                    .map(|at| at + coordinate as usize * stride as usize);
            }
            let linear = number * size;
            (linear ^ (linear >> 7 & pattern) << 4, at)
        };
        (0..total).map(place).collect()
    }

    fn map(&self, context: &Context, address: u64) -> TensorMap {
        let strides: Vec<u64> = (1..self.rank()).map(|n| self.stride(n)).collect();
        let mut map = TensorMap::default();
        if let Some((corners, pixels)) = &self.columns {
            let [lower, upper] = [0, 1].map(|n| corners.iter().map(|both| both[n]).collect());
            let (lower, upper): (Vec<i32>, Vec<i32>) = (lower, upper);
            // SAFETY: as below; the corners have one for each dimension of an image.
            unsafe {
                context.api().cuTensorMapEncodeIm2col(
                    &mut map,
                    self.element.0,
                    self.rank() as u32,
                    address as *mut _,
                    self.dims.as_ptr(),
                    strides.as_ptr(),
                    lower.as_ptr(),
                    upper.as_ptr(),
                    self.boxes[0],
                    *pixels,
                    self.element_strides.as_ptr(),
                    0,
                    self.swizzle,
                    0,
                    self.fill,
                )
            }
            .unwrap();
            return map;
        }
        // SAFETY: the arrays have an element for each dimension.
        unsafe {
            context.api().cuTensorMapEncodeTiled(
                &mut map,
                self.element.0,
                self.rank() as u32,
                address as *mut _,
                self.dims.as_ptr(),
                strides.as_ptr(),
                self.boxes.as_ptr(),
                self.element_strides.as_ptr(),
                0,
                self.swizzle,
                0,
                self.fill,
            )
        }
        .unwrap();
        map
    }
}

/// Runs `body` for a tensor with these bytes. Returns the tensor's bytes and those of `%out`.
/// `%map` is the address of the map; `memory` has 16 KiB of shared memory, which is `%out`'s
/// bytes before and after; `barrier` waits for one arrival.
fn run(tensor: &Tensor, bytes: &[u8], body: &str) -> (Vec<u8>, Vec<u8>) {
    const MEMORY: usize = 16384;
    let text = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n\
         .visible .entry k(.param .u64 map, .param .u64 out) {{\n\
         .shared .align 1024 .b8 memory[{MEMORY}];\n.shared .align 8 .b64 barrier;\n\
         .reg .b64 %map, %out, %x<8>;\n.reg .b32 %t, %i, %w, %s, %m, %b, %r<8>;\n.reg .pred %p<4>;\n\
         ld.param.u64 %map, [map];\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
         mov.u32 %m, memory;\nmov.u32 %b, barrier;\nmov.u32 %i, %t;\n\
         IN:\nmul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %out;\nld.global.b32 %w, [%x0];\n\
         mad.lo.u32 %s, %i, 4, %m;\nst.shared.b32 [%s], %w;\nadd.u32 %i, %i, {THREADS};\n\
         setp.lt.u32 %p0, %i, {};\n@%p0 bra IN;\nsetp.ne.u32 %p1, %t, 0;\n\
         @%p1 bra READY;\nmbarrier.init.shared.b64 [%b], 1;\nREADY:\n\
         fence.proxy.async;\nbar.sync 0;\n@%p1 bra DONE;\n{body}\nDONE:\nbar.sync 0;\n\
         mov.u32 %i, %t;\n\
         OUT:\nmul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %out;\nmad.lo.u32 %s, %i, 4, %m;\n\
         ld.shared.b32 %w, [%s];\nst.global.b32 [%x0], %w;\nadd.u32 %i, %i, {THREADS};\n\
         setp.lt.u32 %p0, %i, {};\n@%p0 bra OUT;\nret;\n}}\n",
        MEMORY / 4,
        MEMORY / 4
    );
    let device = device();
    let context = Context::primary(&device).unwrap();
    let stream = Stream::new(&context).unwrap();
    let pattern: Vec<u8> = (0..MEMORY).map(|n| (n * 37 / 11) as u8).collect();
    let launch = |module: Module| {
        let data = DeviceBuffer::from_slice(&context, bytes).unwrap();
        let map = tensor.map(&context, data.address());
        let map = DeviceBuffer::from_slice(&context, &map.0).unwrap();
        let mut output = DeviceBuffer::from_slice(&context, &pattern).unwrap();
        let kernel = module.kernel("k").unwrap();
        let config = LaunchConfig::for_elements(THREADS, THREADS);
        unsafe { kernel.launch(config, &stream, (&map, &mut output)) }.unwrap();
        stream
            .synchronize()
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        (data.to_vec().unwrap(), output.to_vec().unwrap())
    };
    if device.driver().kind() == DriverKind::Nvidia {
        return launch(Module::load(&context, text.as_bytes()).unwrap());
    }
    let [alone, together] = [Vectorization::Never, Vectorization::Always].map(|lanes| {
        let mut options = CompileOptions::default();
        options.vectorization = lanes;
        let blob = compile(&text, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
        // SAFETY: it was compiled a moment ago.
        launch(unsafe { Module::load_image(&context, &blob) }.unwrap())
    });
    assert!(alone == together, "{text}");
    alone
}

/// What the bytes of the tensor are before.
fn numbers(tensor: &Tensor) -> Vec<u8> {
    (0..tensor.bytes())
        .map(|n| (n * 7 + n / 251) as u8)
        .collect()
}

/// The coordinates as an operand.
fn list(coordinates: &[i32]) -> String {
    let texts: Vec<String> = coordinates.iter().map(i32::to_string).collect();
    texts.join(", ")
}

/// Loads a box, and compares shared memory behind it.
fn check_load(tensor: &Tensor, coordinates: &[i32]) {
    for space in ["shared::cluster", "shared::cta"] {
        let body = format!(
            "mbarrier.arrive.expect_tx.shared.b64 %x1, [%b], {};\n\
             cp.async.bulk.tensor.{}d.{space}.global.tile.mbarrier::complete_tx::bytes \
             [%m], [%map, {{{}}}], [%b];\n\
             WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [%b], 0;\n@!%p2 bra WAIT;",
            tensor.box_bytes(),
            tensor.rank(),
            list(coordinates)
        );
        let before = numbers(tensor);
        let (after, memory) = run(tensor, &before, &body);
        assert!(after == before);
        let size = tensor.element.1;
        for (place, source) in tensor.places(coordinates) {
            let found = &memory[place..place + size];
            match source {
                Some(source) => assert_eq!(found, &before[source..source + size], "{body}"),
                None if tensor.fill == 0 => assert_eq!(found, vec![0; size], "{body}"),
                // Every exponent bit is set, and some other.
                None => {
                    let bits = found
                        .iter()
                        .rev()
                        .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
                    let value = if size == 4 {
                        f32::from_bits(bits)
                    } else {
                        f32::from_bits(bits << 16)
                    };
                    assert!(value.is_nan(), "{bits:X} {body}");
                }
            }
        }
        // Nothing behind the box changes.
        for (at, byte) in memory.iter().enumerate().skip(tensor.box_bytes()) {
            assert_eq!(*byte, (at * 37 / 11) as u8, "{body}");
        }
    }
}

#[test]
fn boxes_of_every_dimension() {
    let dims = [24, 7, 5, 4, 3];
    let boxes = [16, 3, 2, 2, 2];
    for rank in 1..=5 {
        let tensor = Tensor::new(U16, &dims[..rank], &boxes[..rank]);
        check_load(&tensor, &[8, 2, 1, 1, 0][..rank]);
        // A part, or all, outside.
        check_load(&tensor, &[-8, 5, 4, 3, 2][..rank]);
        check_load(&tensor, &[16, -1, -1, 0, 1][..rank]);
        check_load(&tensor, &[24, 0, 0, 0, 0][..rank]);
    }
}

#[test]
fn boxes_of_every_width() {
    for element in [U8, U16, U32, F16, F32, (4, 8), (8, 8), (9, 2)] {
        let tensor = Tensor::new(element, &[40, 9], &[16, 4]);
        check_load(&tensor, &[32 / element.1 as i32, 7]);
    }
    let mut filled = Tensor::new(F32, &[40, 9], &[16, 4]);
    filled.fill = 1;
    check_load(&filled, &[28, 7]);
    let mut sparse = Tensor::new(U32, &[64, 20], &[16, 9]);
    sparse.element_strides = vec![1, 3];
    check_load(&sparse, &[52, 4]);
    sparse.element_strides = vec![2, 4];
    check_load(&sparse, &[12, 4]);
}

#[test]
fn swizzled_boxes() {
    for (swizzle, elements) in [(1, 16), (2, 32), (3, 64)] {
        let mut tensor = Tensor::new(F16, &[100, 40], &[elements, 24]);
        tensor.swizzle = swizzle;
        check_load(&tensor, &[8, 5]);
        check_load(&tensor, &[88, 30]);
    }
}

/// Stores, or reduces, and compares the tensor behind it.
fn check_store(
    tensor: &Tensor,
    coordinates: &[i32],
    operation: &str,
    combine: impl Fn(u64, u64) -> u64,
) {
    let (opcode, reduction) = match operation {
        "" => ("cp.async.bulk.tensor", String::new()),
        _ => ("cp.reduce.async.bulk.tensor", format!(".{operation}")),
    };
    let body = format!(
        "{opcode}.{}d.global.shared::cta{reduction}.tile.bulk_group [%map, {{{}}}], [%m];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
        tensor.rank(),
        list(coordinates)
    );
    let before = numbers(tensor);
    let (after, memory) = run(tensor, &before, &body);
    let mut expected = before.clone();
    let size = tensor.element.1;
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0_u64, |n, byte| n << 8 | u64::from(*byte))
    };
    for (place, target) in tensor.places(coordinates) {
        if let Some(target) = target {
            let new = combine(
                number(&before[target..target + size]),
                number(&memory[place..place + size]),
            );
            expected[target..target + size].copy_from_slice(&new.to_le_bytes()[..size]);
        }
    }
    assert!(after == expected, "{body}");
}

#[test]
fn boxes_go_back() {
    let dims = [24, 7, 5, 4, 3];
    let boxes = [16, 3, 2, 2, 2];
    for rank in 1..=5 {
        let tensor = Tensor::new(U16, &dims[..rank], &boxes[..rank]);
        check_store(&tensor, &[8, 2, 1, 1, 0][..rank], "", |_, new| new);
        check_store(&tensor, &[16, 5, 4, 3, 2][..rank], "", |_, new| new);
    }
    // Rows of whole pieces of 16 bytes: a GPU writes what follows in the last piece too.
    let mut swizzled = Tensor::new(F16, &[104, 40], &[64, 24]);
    swizzled.swizzle = 3;
    check_store(&swizzled, &[56, 20], "", |_, new| new);
}

#[test]
fn reductions_into_a_tensor() {
    let tensor = Tensor::new(U32, &[40, 9], &[16, 4]);
    let word = |value: u64| value as u32;
    check_store(&tensor, &[28, 2], "add", |a, b| {
        word(a).wrapping_add(word(b)).into()
    });
    check_store(&tensor, &[28, 2], "min", |a, b| a.min(b));
    check_store(&tensor, &[28, 2], "max", |a, b| a.max(b));
    check_store(&tensor, &[28, 2], "and", |a, b| a & b);
    check_store(&tensor, &[28, 2], "or", |a, b| a | b);
    check_store(&tensor, &[28, 2], "xor", |a, b| a ^ b);
    check_store(
        &tensor,
        &[28, 2],
        "inc",
        |a, b| if a >= b { 0 } else { a + 1 },
    );
    check_store(&tensor, &[28, 2], "dec", |a, b| {
        if a == 0 || a > b { b } else { a - 1 }
    });
    let signed = Tensor::new((3, 4), &[40, 9], &[16, 4]);
    check_store(&signed, &[0, 0], "min", |a, b| {
        (a as i32).min(b as i32) as u32 as u64
    });
    let wide = Tensor::new((4, 8), &[40, 9], &[16, 4]);
    check_store(&wide, &[0, 0], "add", u64::wrapping_add);
}

/// `cp.reduce.async.bulk`: the first 256 bytes of shared memory and of the tensor.
#[test]
fn reductions_of_bulk_copies() {
    let tensor = Tensor::new(U32, &[64], &[64]);
    let before = numbers(&tensor);
    type Combine = fn(u32, u32) -> u32;
    let reductions: [(&str, Combine); 4] = [
        ("add.u32", |a, b| a.wrapping_add(b)),
        ("max.s32", |a, b| (a as i32).max(b as i32) as u32),
        ("xor.b32", |a, b| a ^ b),
        ("inc.u32", |a, b| if a >= b { 0 } else { a + 1 }),
    ];
    for (reduction, combine) in reductions {
        // The memory of the kernel begins with what the output has.
        let body = format!(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.{reduction} [%out], [%m], 256;\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
             mov.u32 %i, 0;\nBACK:\nmul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %out;\n\
             ld.global.b32 %w, [%x0];\nmad.lo.u32 %s, %i, 4, %m;\nst.shared.b32 [%s], %w;\n\
             add.u32 %i, %i, 1;\nsetp.lt.u32 %p0, %i, 64;\n@%p0 bra BACK;"
        );
        let (_, memory) = run(&tensor, &before, &body);
        let pattern: Vec<u8> = (0..256).map(|n| (n * 37 / 11) as u8).collect();
        for (found, word) in memory
            .as_chunks::<4>()
            .0
            .iter()
            .zip(pattern.as_chunks::<4>().0)
        {
            let [found, word] = [found, word].map(|bytes| u32::from_le_bytes(*bytes));
            assert_eq!(found, combine(word, word), "{reduction}");
        }
    }
}

/// A map that the kernel itself makes, field by field.
#[test]
fn fields_are_replaced() {
    let tensor = Tensor::new(U32, &[40, 9], &[16, 4]);
    let smaller = Tensor::new(U32, &[40, 6], &[8, 5]);
    let before = numbers(&tensor);
    let body = format!(
        "tensormap.replace.tile.box_dim.global.b1024.b32 [%map], 0, 8;\n\
         tensormap.replace.tile.box_dim.global.b1024.b32 [%map], 1, 5;\n\
         tensormap.replace.tile.global_dim.global.b1024.b32 [%map], 1, 6;\n\
         tensormap.replace.tile.fill_mode.global.b1024.b32 [%map], 0;\n\
         fence.proxy.tensormap::generic.release.gpu;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%map], 128;\n\
         mbarrier.arrive.expect_tx.shared.b64 %x1, [%b], {};\n\
         cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes \
         [%m], [%map, {{4, 3}}], [%b];\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [%b], 0;\n@!%p2 bra WAIT;",
        smaller.box_bytes()
    );
    let (_, memory) = run(&tensor, &before, &body);
    for (place, source) in smaller.places(&[4, 3]) {
        let expected = source.map_or(&[0; 4][..], |source| &before[source..source + 4]);
        assert_eq!(&memory[place..place + 4], expected);
    }
}

impl Tensor {
    /// Images, of which columns of so many pixels are copied.
    fn of_images(dims: &[u64], channels: u32, corners: &[[i32; 2]], pixels: u32) -> Tensor {
        let mut tensor = Tensor::new(U16, dims, &vec![channels; dims.len()]);
        tensor.columns = Some((corners.to_vec(), pixels));
        tensor
    }

    /// For each element of a column: its place in shared memory, and in the tensor, if it is
    /// inside. The base of a filter goes along the width between its corners, then along the
    /// height and the depth, then to the next image.
    fn column(&self, coordinates: &[i32], offsets: &[i32]) -> Vec<(usize, Option<usize>)> {
        let (corners, pixels) = self.columns.as_ref().unwrap();
        let (size, last) = (self.element.1, self.rank() - 1);
        let pattern = (1 << self.swizzle) - 1;
        let mut base = coordinates.to_vec();
        let mut places = Vec::new();
        for pixel in 0..*pixels as usize {
            for channel in 0..self.boxes[0] as usize {
                let mut at = base.clone();
                at[0] += channel as i32;
                for (n, offset) in offsets.iter().enumerate() {
                    at[n + 1] += offset;
                }
                let inside = at
                    .iter()
                    .zip(&self.dims)
                    .all(|(at, dim)| (0..*dim as i32).contains(at));
                let source = at.iter().enumerate().map(|(n, at)| {
                    let stride = if n == 0 { size as u64 } else { self.stride(n) };
                    i64::from(*at) * stride as i64
                });
                let linear = (pixel * self.boxes[0] as usize + channel) * size;
                let place = linear ^ (linear >> 7 & pattern) << 4;
                places.push((place, inside.then(|| source.sum::<i64>() as usize)));
            }
            for n in 1..=last {
                base[n] += self.step(n) as i32;
                if n == last {
                    break;
                }
                let [lower, upper] = corners[n - 1];
                if base[n] < self.dims[n] as i32 + upper {
                    break;
                }
                base[n] = lower;
            }
        }
        places
    }
}

fn check_column(tensor: &Tensor, coordinates: &[i32], offsets: &[i32]) {
    let places = tensor.column(coordinates, offsets);
    let bytes = places.len() * tensor.element.1;
    let body = format!(
        "mbarrier.arrive.expect_tx.shared.b64 %x1, [%b], {bytes};\n\
         cp.async.bulk.tensor.{}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes \
         [%m], [%map, {{{}}}], [%b], {{{}}};\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %p2, [%b], 0;\n@!%p2 bra WAIT;",
        tensor.rank(),
        list(coordinates),
        list(offsets)
    );
    let before = numbers(tensor);
    let (_, memory) = run(tensor, &before, &body);
    let size = tensor.element.1;
    for (place, source) in places {
        let found = &memory[place..place + size];
        match source {
            Some(source) => assert_eq!(found, &before[source..source + size], "{body}"),
            None => assert_eq!(found, vec![0; size], "{body}"),
        }
    }
    for (at, byte) in memory.iter().enumerate().skip(bytes) {
        assert_eq!(*byte, (at * 37 / 11) as u8, "{body}");
    }
}

#[test]
fn columns_of_pixels() {
    // Of other widths than heights, so that an exchange of them shows.
    let line = Tensor::of_images(&[16, 9, 3], 8, &[[-2, 1]], 20);
    check_column(&line, &[8, -2, 0], &[3]);
    check_column(&line, &[0, 5, 1], &[0]);
    let plane = Tensor::of_images(&[16, 7, 5, 2], 16, &[[-1, -1], [-2, 0]], 64);
    check_column(&plane, &[0, -1, -2, 0], &[0, 0]);
    check_column(&plane, &[0, 2, 1, 0], &[2, 1]);
    check_column(&plane, &[0, 4, 3, 1], &[1, 2]);
    let volume = Tensor::of_images(&[8, 4, 3, 5, 2], 8, &[[-1, 0], [0, -1], [-2, -2]], 70);
    check_column(&volume, &[0, 0, 1, -2, 0], &[1, 1, 2]);
    let mut sparse = Tensor::of_images(&[8, 9, 8, 2], 8, &[[-1, 0], [0, 0]], 40);
    sparse.element_strides = vec![1, 2, 3, 1];
    check_column(&sparse, &[0, -1, 0, 0], &[1, 0]);
    let mut swizzled = Tensor::of_images(&[64, 6, 4, 2], 64, &[[0, 0], [-1, -1]], 40);
    swizzled.swizzle = 3;
    check_column(&swizzled, &[0, 3, -1, 0], &[0, 1]);
}

/// Columns go back without the offsets of a filter.
#[test]
fn columns_go_back() {
    let tensor = Tensor::of_images(&[16, 7, 5, 2], 16, &[[0, 0], [0, 0]], 50);
    let coordinates = [0, 3, 1, 0];
    for (operation, add) in [("cp.async", false), ("cp.reduce.async", true)] {
        let mut tensor = tensor.clone();
        // Sums are of 32 bits.
        if add {
            tensor.element = U32;
            tensor.pitch = 64;
            tensor.boxes = vec![16; 4];
        }
        let reduction = if add { ".add" } else { "" };
        let body = format!(
            "{operation}.bulk.tensor.4d.global.shared::cta{reduction}.im2col_no_offs.bulk_group \
             [%map, {{{}}}], [%m];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;",
            list(&coordinates)
        );
        let before = numbers(&tensor);
        let (after, memory) = run(&tensor, &before, &body);
        let size = tensor.element.1;
        let mut expected = before.clone();
        for (place, target) in tensor.column(&coordinates, &[0, 0]) {
            let Some(target) = target else { continue };
            let new = &memory[place..place + size];
            let old = &before[target..target + size];
            let number = |bytes: &[u8]| {
                let bytes = bytes.iter().rev();
                bytes.fold(0_u32, |n, byte| n << 8 | u32::from(*byte))
            };
            let new = if add {
                number(old).wrapping_add(number(new))
            } else {
                number(new)
            };
            expected[target..target + size].copy_from_slice(&new.to_le_bytes()[..size]);
        }
        assert!(after == expected, "{body}");
    }
}

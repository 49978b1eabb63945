//! Columns of pixels along the width (`.im2col::w`, `.im2col::w::128`), as the documentation of
//! PTX has them: the CPU device alone runs them here. What the documentation leaves open is
//! refused.

use ptxkit::driver::{
    Context, ContextFlags, DeviceBuffer, DriverKind, Im2colWide, LaunchConfig, Module, Stream,
    TensorMap, TensorSwizzle, TensorView,
};

use crate::kernels::device;
use crate::parts::Parts;

const THREADS: u32 = 64;
/// Words of a pixel, which fill a line of swizzling.
const CHANNELS: u64 = 16;
/// The most pixels that fit into shared memory here, the last ones unwritten.
const MOST: usize = 140;
const UNWRITTEN: u32 = u32::MAX;

/// Images, of which each word has a number of its own, from 1 on.
struct Images {
    /// Width, height and so on, the number of images last.
    dims: Vec<u64>,
    corners: [i32; 2],
    stride: u32,
    /// `None` for `.im2col::w::128`.
    pixels: Option<u32>,
}

/// A pixel of an image: where it is in the width, and the image's number. `None` is outside.
type Pixel = Option<(u64, u64)>;

impl Images {
    fn words(&self) -> Vec<u32> {
        let words = CHANNELS * self.dims.iter().product::<u64>();
        (1..=words as u32).collect()
    }

    /// The first word of a pixel, in the row (and the depth) of these coordinates.
    fn word(&self, coordinates: &[i32], (width, image): (u64, u64)) -> u32 {
        let last = self.dims.len() - 1;
        let mut at = 0;
        for n in (0..=last).rev() {
            let coordinate = match n {
                0 => width,
                _ if n == last => image,
                _ => coordinates[n] as u64,
            };
            at = at * self.dims[n] + coordinate;
        }
        (at * CHANNELS) as u32 + 1
    }

    fn map(&self, data: &DeviceBuffer<u32>) -> TensorMap {
        let mut sizes = vec![CHANNELS];
        sizes.extend(&self.dims);
        let mut steps = vec![1; sizes.len()];
        steps[1] = self.stride;
        let view = TensorView::new(&data.all(), &sizes)
            .element_strides(&steps)
            .swizzle(TensorSwizzle::Bytes64);
        let [lower, upper] = self.corners;
        let columns = Im2colWide {
            lower,
            upper,
            channels: CHANNELS as u32,
            pixels: self.pixels,
        };
        view.im2col_wide(&columns).unwrap()
    }

    /// Runs a copy of so many pixels, as a barrier counts them, and returns what it has written,
    /// in order: the words of each pixel.
    fn load(
        &self,
        coordinates: &[i32],
        copy: &str,
        pixels: usize,
    ) -> Result<Vec<Vec<u32>>, String> {
        let bytes = 64 * MOST;
        let rank = coordinates.len() + 1;
        let list: Vec<String> = coordinates.iter().map(i32::to_string).collect();
        let text = format!(
            ".version 9.0\n.target sm_100a\n.address_size 64\n\
             .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{\n\
             .shared .align 1024 .b8 memory[{bytes}];\n.shared .align 8 .b64 barrier;\n\
             .reg .b64 %map, %out, %x<4>;\n.reg .b32 %t, %i, %w, %s, %m, %b;\n\
             .reg .b16 %zero;\n.reg .pred %p<4>;\n\
             mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nld.param.u64 %out, [out];\nmov.u32 %t, %tid.x;\n\
             mov.u32 %m, memory;\nmov.u32 %b, barrier;\nmov.b16 %zero, 0;\nmov.u32 %i, %t;\n\
             IN:\nmad.lo.u32 %s, %i, 4, %m;\nst.shared.b32 [%s], -1;\nadd.u32 %i, %i, {THREADS};\n\
             setp.lt.u32 %p0, %i, {words};\n@%p0 bra IN;\nsetp.ne.u32 %p1, %t, 0;\n\
             @%p1 bra READY;\nmbarrier.init.shared.b64 [%b], 1;\nREADY:\n\
             fence.proxy.async;\nbar.sync 0;\n@%p1 bra DONE;\n\
             mbarrier.arrive.expect_tx.shared.b64 %x1, [%b], {};\n\
             cp.async.bulk.tensor.{rank}d.shared::cta.global.{copy};\n\
             mbarrier.test_wait.parity.shared.b64 %p2, [%b], 0;\nselp.b32 %w, 1, 0, %p2;\n\
             st.global.b32 [%out+{bytes}], %w;\nDONE:\nbar.sync 0;\n\
             mov.u32 %i, %t;\n\
             OUT:\nmul.wide.u32 %x0, %i, 4;\nadd.s64 %x0, %x0, %out;\nmad.lo.u32 %s, %i, 4, %m;\n\
             ld.shared.b32 %w, [%s];\nst.global.b32 [%x0], %w;\nadd.u32 %i, %i, {THREADS};\n\
             setp.lt.u32 %p0, %i, {words};\n@%p0 bra OUT;\nret;\n}}\n",
            64 * pixels,
            words = bytes / 4,
            copy = copy.replace("MAP", &format!("[%map, {{0, {}}}]", list.join(", "))),
        );
        let context = Context::create(&device(), ContextFlags::default()).unwrap();
        let stream = Stream::new(&context).unwrap();
        let data = DeviceBuffer::from_slice(&context, &self.words()).unwrap();
        let map = self.map(&data);
        let mut out = DeviceBuffer::<u32>::zeroed(&context, bytes / 4 + 1).unwrap();
        let module = Module::load(&context, text.as_bytes()).map_err(|error| error.to_string())?;
        let kernel = module.kernel("k").unwrap();
        let config = LaunchConfig::for_elements(THREADS, THREADS);
        unsafe { kernel.launch(config, &stream, (&map, &mut out)) }.unwrap();
        stream.synchronize().map_err(|error| error.to_string())?;
        let memory = out.to_vec().unwrap();
        assert_eq!(memory[bytes / 4], 1, "bytes of {pixels} pixels: {copy}");
        let pixels = (0..MOST).map(|pixel| {
            let words = (0..CHANNELS as usize).map(|channel| memory[place(pixel, channel)]);
            words.collect::<Vec<u32>>()
        });
        let mut pixels: Vec<Vec<u32>> = pixels.collect();
        while pixels
            .last()
            .is_some_and(|words| words.iter().all(|word| *word == UNWRITTEN))
        {
            pixels.pop();
        }
        Ok(pixels)
    }

    fn check(&self, coordinates: &[i32], copy: &str, expected: &[Pixel]) {
        let found = self.load(coordinates, copy, expected.len()).unwrap();
        assert_eq!(found.len(), expected.len(), "{copy}");
        for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
            let expected: Vec<u32> = match expected {
                None => vec![0; CHANNELS as usize],
                Some(pixel) => {
                    let first = self.word(coordinates, *pixel);
                    (first..first + CHANNELS as u32).collect()
                }
            };
            assert_eq!(*found, expected, "pixel {n} of {copy}");
        }
    }
}

/// The number of a word in shared memory.
fn place(pixel: usize, channel: usize) -> usize {
    let linear = 64 * pixel + 4 * channel;
    (linear ^ (linear >> 7 & 3) << 4) / 4
}

fn is_nvidia() -> bool {
    device().driver().kind() == DriverKind::Nvidia
}

const WAITS: &str = "mbarrier::complete_tx::bytes [%m], MAP, [%b]";

/// Pixels of a row, image by image.
fn rows(images: std::ops::RangeInclusive<u64>, widths: &[Option<u64>]) -> Vec<Pixel> {
    let of_image = |image| {
        widths
            .iter()
            .map(move |width| width.map(|width| (width, image)))
    };
    images.flat_map(of_image).collect()
}

/// The example of the halo: 9 pixels of a row, 64 images, a filter of 3 by 3.
#[test]
fn a_halo_is_behind_the_last_pixel() {
    if is_nvidia() {
        return;
    }
    let images = Images {
        dims: vec![9, 7, 64],
        corners: [0, 0],
        stride: 1,
        pixels: Some(128),
    };
    // Six of image 7, nine of each of the next 13, and five of image 21; then two more.
    let all: Vec<Option<u64>> = (0..9).map(Some).collect();
    let mut expected = rows(7..=7, &all[3..]);
    expected.extend(rows(8..=20, &all));
    expected.extend(rows(21..=21, &all[..7]));
    assert_eq!(expected.len(), 130);
    images.check(
        &[3, 2, 7],
        &format!("im2col::w.{WAITS}, {{2, 0}}"),
        &expected,
    );
    // Without a halo, and from a register.
    let without = &expected[..128];
    images.check(
        &[3, 2, 7],
        &format!("im2col::w.{WAITS}, {{%zero, 0}}"),
        without,
    );
    let images = Images {
        pixels: None,
        ..images
    };
    images.check(
        &[3, 2, 7],
        &format!("im2col::w::128.{WAITS}, {{0, %zero}}"),
        without,
    );
}

/// The examples of the offset: each buffer has every second or third pixel, from another on.
#[test]
fn an_offset_moves_the_corners() {
    if is_nvidia() {
        return;
    }
    let images = Images {
        dims: vec![9, 67, 64],
        corners: [-1, 0],
        stride: 2,
        pixels: Some(128),
    };
    // -1, 1, 3, 5 and 7 of each image. 128 are those of 25, and three.
    let odd = [None, Some(1), Some(3), Some(5), Some(7)];
    let mut first = rows(7..=31, &odd);
    first.extend(rows(32..=32, &odd[..4]));
    images.check(&[-1, 2, 7], &format!("im2col::w.{WAITS}, {{1, 0}}"), &first);
    let even = [0, 2, 4, 6, 8].map(Some);
    let mut second = rows(7..=31, &even);
    second.extend(rows(32..=32, &even[..3]));
    images.check(
        &[-1, 2, 7],
        &format!("im2col::w.{WAITS}, {{0, 1}}"),
        &second,
    );

    let images = Images {
        dims: vec![7, 7, 64],
        corners: [-1, -1],
        stride: 3,
        pixels: Some(128),
    };
    // -1, 2 and 5 of each; 0, 3 and 6; 1, 4 and 7, which is outside.
    let buffers = [
        [None, Some(2), Some(5)],
        [Some(0), Some(3), Some(6)],
        [Some(1), Some(4), None],
    ];
    for (offset, widths) in buffers.iter().enumerate() {
        let mut expected = rows(7..=48, widths);
        expected.extend(rows(49..=49, &widths[..2]));
        let copy = format!("im2col::w.{WAITS}, {{0, {offset}}}");
        images.check(&[-1, 2, 7], &copy, &expected);
    }
}

/// The first pixel may be before the box; behind the last image there are zeros. The height
/// and the depth stay.
#[test]
fn columns_begin_before_a_row_and_end_behind_the_images() {
    if is_nvidia() {
        return;
    }
    let images = Images {
        dims: vec![5, 3, 2, 2],
        corners: [1, -1],
        stride: 1,
        pixels: Some(12),
    };
    // Of a row of five, those from 1 to 3 are in the box.
    let mut expected = rows(0..=0, &[None, Some(0), Some(1), Some(2), Some(3)]);
    expected.extend(rows(1..=1, &[1, 2, 3].map(Some)));
    expected.extend([None; 4]);
    images.check(
        &[-1, 2, 1, 0],
        &format!("im2col::w.{WAITS}, {{0, 0}}"),
        &expected,
    );
    let line = Images {
        dims: vec![6, 2],
        corners: [0, 0],
        stride: 1,
        pixels: Some(8),
    };
    let mut expected = rows(0..=0, &[2, 3, 4, 5].map(Some));
    expected.extend(rows(1..=1, &[0, 1, 2, 3, 4].map(Some)));
    line.check(&[2, 0], &format!("im2col::w.{WAITS}, {{1, 0}}"), &expected);
}

/// Stores have neither halo nor offset, and end with the tensor.
#[test]
fn columns_along_the_width_go_back() {
    if is_nvidia() {
        return;
    }
    let images = |corners| Images {
        dims: vec![5, 3],
        corners,
        stride: 1,
        pixels: Some(9),
    };
    let store = |images: &Images, at: [i32; 2]| {
        let [width, image] = at;
        let text = format!(
            ".version 9.4\n.target sm_107a\n.address_size 64\n\
             .visible .entry k(.param .align 64 .b8 map[128]) {{\n\
             .shared .align 1024 .b8 memory[1024];\n\
             .reg .b64 %map;\n.reg .b32 %i, %v, %s, %m;\n.reg .pred %p;\n\
             mov.b64 %map, map;\ncvta.param.u64 %map, %map;\nmov.u32 %m, memory;\n\
             mov.u32 %i, 0;\n\
             IN:\nmad.lo.u32 %s, %i, 4, %m;\nadd.u32 %v, %i, 1000;\nst.shared.b32 [%s], %v;\n\
             add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, 256;\n@%p bra IN;\nfence.proxy.async;\n\
             cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs::w.bulk_group \
             [%map, {{0, {width}, {image}}}], [%m];\n\
             cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}}\n"
        );
        let context = Context::create(&device(), ContextFlags::default()).unwrap();
        let stream = Stream::new(&context).unwrap();
        let data = DeviceBuffer::from_slice(&context, &images.words()).unwrap();
        let mut map = images.map(&data);
        let module = Module::load(&context, text.as_bytes()).unwrap();
        let kernel = module.kernel("k").unwrap();
        unsafe { kernel.launch(LaunchConfig::default(), &stream, (&mut map,)) }.unwrap();
        stream.synchronize().map_err(|error| error.to_string())?;
        Ok::<_, String>(data.to_vec().unwrap())
    };
    // From pixel 3 of image 1 on: 3, then 1 to 3 of image 2, and no more images.
    let some = images([1, -1]);
    let found = store(&some, [3, 1]).unwrap();
    let mut expected = some.words();
    for (pixel, (width, image)) in [(3, 1), (1, 2), (2, 2), (3, 2)].into_iter().enumerate() {
        for channel in 0..CHANNELS as usize {
            let at = ((image * 5 + width) * CHANNELS) as usize + channel;
            expected[at] = 1000 + place(pixel, channel) as u32;
        }
    }
    assert_eq!(found, expected);
    let mut parts = Parts::of("wide_columns::columns_along_the_width_go_back");
    for (corners, at) in [([-1, 0], [0, 0]), ([0, 1], [0, 0]), ([0, 0], [-1, 0])] {
        parts.run(|| {
            let text = store(&images(corners), at).unwrap_err();
            assert!(text.contains("an invalid operand"), "{text}");
        });
    }
}

#[test]
fn what_is_not_documented_is_refused_by_name() {
    if is_nvidia() {
        return;
    }
    let images = |pixels| Images {
        dims: vec![9, 7, 64],
        corners: [0, 0],
        stride: 1,
        pixels,
    };
    let refused = |pixels, coordinates: &[i32], copy: &str| {
        let copy = copy.replace("WAITS", WAITS);
        images(pixels).load(coordinates, &copy, 0).unwrap_err()
    };
    // The column ends at 7: of its halo 8 is in the row, and what follows is open.
    let mut parts = Parts::of("wide_columns::what_is_not_documented_is_refused_by_name");
    parts.run(|| {
        let text = refused(Some(32), &[3, 2, 7], "im2col::w.WAITS, {2, 0}");
        assert!(text.contains("past the last pixel of its row"), "{text}");
    });
    parts.run(|| {
        let text = refused(None, &[3, 2, 7], "im2col::w::128.WAITS, {2, 0}");
        assert!(text.contains("a halo of 2 after each 32 pixels"), "{text}");
    });
    for (pixels, coordinates, copy) in [
        // Too large, behind the row, the other map.
        (Some(32), [0, 2, 7], "im2col::w.WAITS, {512, 0}"),
        (Some(32), [0, 2, 7], "im2col::w.WAITS, {0, 32}"),
        (None, [0, 2, 7], "im2col::w::128.WAITS, {32, 0}"),
        (Some(32), [9, 2, 7], "im2col::w.WAITS, {0, 0}"),
        (None, [0, 2, 7], "im2col::w.WAITS, {0, 0}"),
        (Some(128), [0, 2, 7], "im2col::w::128.WAITS, {0, 0}"),
    ] {
        parts.run(|| {
            let text = refused(pixels, &coordinates, copy);
            assert!(text.contains("an invalid operand"), "{copy}: {text}");
        });
    }
}

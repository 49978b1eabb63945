//! Damaged files: never a panic, and no more memory than the sizes that a file states.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use ptxkit::image::{self, Compression, Image, ImageError, Packer, UnpackLimit, Unpacker};

use super::bomb::bomb;
use super::fixtures::{FIXTURES, fixture};

/// Remembers the largest piece of memory that was asked for.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Reads all there is, as far as it goes; gives the largest size that an entry states.
fn read_all(bytes: &[u8]) -> u64 {
    let Ok(contents) = image::contents(bytes) else {
        return 0;
    };
    let mut unpacker = Unpacker::default();
    let mut largest = 0;
    for entry in contents.entries() {
        let Ok(unpacked) = unpacker.unpack(&entry) else {
            continue;
        };
        largest = largest.max(entry.size);
        if entry.kind.is_ptx() {
            let _ = entry.text_of(unpacked);
        } else if let Ok(Image::Cubin(cubin)) = image::open(unpacked) {
            let _ = cubin.contents();
        }
    }
    largest
}

/// Numbers that differ from run to run of the loop and not of the test.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes some bytes: to values that are wrong in a size, to any, or to others of the file.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        // Most of what is read lies in headers, at the front and at the end.
        let at = match numbers.below(3) {
            0 => numbers.below(bytes.len().min(256)),
            1 => bytes.len() - 1 - numbers.below(bytes.len().min(4096)),
            _ => numbers.below(bytes.len()),
        };
        match numbers.below(4) {
            0 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
            1 => bytes[at] = numbers.next() as u8,
            2 => {
                let end = bytes.len().min(at + 8);
                let value = [0, u64::MAX, 1 << 31, 1 << 40, 16][numbers.below(5)];
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => {
                let from = numbers.below(bytes.len());
                let length = numbers.below(64).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + length, at);
            }
        }
    }
    if numbers.below(8) == 0 {
        bytes.truncate(numbers.below(bytes.len()).max(1));
    }
}

/// `PTXKIT_DAMAGED` says how many damaged copies of each fixture are read.
#[test]
fn no_damage_makes_a_reader_panic_or_fill_the_memory() {
    let rounds = std::env::var("PTXKIT_DAMAGED").map_or(60, |n| n.parse().expect("a number"));
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for (name, bytes) in FIXTURES {
        for round in 0..rounds {
            let mut bad = bytes.to_vec();
            damage(&mut bad, &mut numbers);
            LARGEST.store(0, Ordering::Relaxed);
            let stated = read_all(&bad);
            let largest = LARGEST.load(Ordering::Relaxed) as u64;
            // Other tests run meanwhile, on files of this size.
            let bound = stated + (16 << 20) + 64 * bad.len() as u64;
            assert!(
                largest <= bound,
                "{name}, round {round}: {largest} bytes of {stated}"
            );
        }
    }
}

/// What is packed of a damaged file is read again as it was.
#[test]
fn damaged_images_are_refused_or_packed_as_they_are() {
    let mut numbers = Numbers(0xd1b5_4a32_d192_ed03);
    let mut packed = 0;
    for (name, bytes) in FIXTURES {
        for round in 0..12 {
            let mut bad = bytes.to_vec();
            damage(&mut bad, &mut numbers);
            let Ok(contents) = image::contents(&bad) else {
                continue;
            };
            for piece in &contents.pieces {
                for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
                    let mut packer = Packer::new(compression);
                    if packer.add(&piece.image).is_err() {
                        continue;
                    }
                    packed += 1;
                    let again = packer.finish();
                    let Ok(Image::Fatbin(again)) = image::open(&again) else {
                        panic!("{name}, round {round}: not a fatbin")
                    };
                    for (before, after) in piece.entries().iter().zip(&again.entries) {
                        assert_eq!((before.kind, before.target), (after.kind, after.target));
                        // Compressed bytes may be copied without being unpacked.
                        let (Ok(before), Ok(after)) = (before.unpack(), after.unpack()) else {
                            continue;
                        };
                        let same = before.iter().zip(&*after).all(|(one, other)| one == other);
                        assert!(same, "{name}, round {round}");
                    }
                }
            }
        }
    }
    assert!(packed > 50, "{packed}");
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    // A size of 1 TiB in the header of the first compressed entry.
    let mut bytes = fixture("every-lz4.fatbin").to_vec();
    bytes[16 + 56..16 + 64].copy_from_slice(&(1u64 << 40).to_le_bytes());
    let contents = image::contents(&bytes).unwrap();
    let error = contents.entries().next().unwrap().unpack().unwrap_err();
    assert!(
        matches!(error, ImageError::Damaged { offset: 80, .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("says 1099511627776 bytes"),
        "{error}"
    );
}

#[test]
fn the_images_of_a_file_unpack_to_no_more_than_its_limit() {
    // Each image is far below the largest, and together they would be 60 GiB.
    let bytes = bomb(2000, 30 << 20);
    assert!(bytes.len() < 3 << 20);
    let contents = image::contents(&bytes).unwrap();
    let mut limit = UnpackLimit::of_file(bytes.len());
    let allowed = contents.entries().filter(|entry| limit.take(entry).is_ok());
    let limit = 100 * bytes.len();
    assert_eq!(allowed.count(), limit / (30 << 20));

    let small = bomb(3, 30 << 20);
    let last = image::contents(&small).unwrap().entries().last().unwrap();
    let mut limit = UnpackLimit::of_file(small.len());
    assert_eq!((limit.take(&last), limit.take(&last)), (Ok(()), Ok(())));
    let error = limit.take(&last).unwrap_err();
    let ImageError::UnpackLimit { size, limit, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((size, limit), (30 << 20, 64 << 20));
}

#[test]
fn a_stated_size_that_is_not_the_real_one_is_an_error() {
    for name in ["every-lz4.fatbin", "every-zstd.fatbin"] {
        for change in [-1i64, 1] {
            let mut bytes = fixture(name).to_vec();
            let size = u64::from_le_bytes(bytes[72..80].try_into().unwrap());
            bytes[72..80].copy_from_slice(&size.wrapping_add_signed(change).to_le_bytes());
            let contents = image::contents(&bytes).unwrap();
            assert!(
                contents.entries().next().unwrap().unpack().is_err(),
                "{name} {change}"
            );
        }
    }
}

#[test]
fn errors_name_the_offset_and_the_field() {
    let good = fixture("library.so");
    let section = u64::from_le_bytes(good[40..48].try_into().unwrap());
    for (what, bytes, words) in [
        ("cut", &good[..good.len() - 8], format!("offset {section}")),
        (
            "no images",
            &include_bytes!("main.rs")[..],
            "text, but not PTX".to_owned(),
        ),
    ] {
        let error = image::contents(bytes).unwrap_err().to_string();
        assert!(error.contains(&words), "{what}: {error}");
    }
    let mut bad = fixture("unpacked.fatbin").to_vec();
    bad[20..24].copy_from_slice(&7u32.to_le_bytes());
    let error = image::contents(&bad).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the fatbin has an invalid entry header size at offset 20: 7"
    );
    let mut bad = fixture("archive.a").to_vec();
    bad[8 + 48] = b'x';
    let error = image::contents(&bad).unwrap_err().to_string();
    assert!(error.contains("size of a member at offset 56"), "{error}");
}

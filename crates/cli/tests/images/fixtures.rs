//! The files that the tests read.

pub const FIXTURES: &[(&str, &[u8])] = &[
    ("archive.a", include_bytes!("fixtures/archive.a")),
    (
        "blocks-named.fatbin",
        include_bytes!("fixtures/blocks-named.fatbin"),
    ),
    ("blocks.fatbin", include_bytes!("fixtures/blocks.fatbin")),
    ("debug.fatbin", include_bytes!("fixtures/debug.fatbin")),
    (
        "every-lz4.fatbin",
        include_bytes!("fixtures/every-lz4.fatbin"),
    ),
    (
        "every-zstd.fatbin",
        include_bytes!("fixtures/every-zstd.fatbin"),
    ),
    ("kernels.fatbin", include_bytes!("fixtures/kernels.fatbin")),
    ("library.so", include_bytes!("fixtures/library.so")),
    ("lto.fatbin", include_bytes!("fixtures/lto.fatbin")),
    (
        "nvfatbin-12.fatbin",
        include_bytes!("fixtures/nvfatbin-12.fatbin"),
    ),
    (
        "nvfatbin-13.fatbin",
        include_bytes!("fixtures/nvfatbin-13.fatbin"),
    ),
    ("relocatable.o", include_bytes!("fixtures/relocatable.o")),
    (
        "unpacked.fatbin",
        include_bytes!("fixtures/unpacked.fatbin"),
    ),
];

pub fn fixture(name: &str) -> &'static [u8] {
    let found = FIXTURES.iter().find(|(fixture, _)| *fixture == name);
    found.expect("a fixture of this name").1
}

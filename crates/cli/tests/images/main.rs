//! Images of every kind, beside what NVIDIA's cuobjdump says of the same files. `record.py` makes
//! the fixtures anew.

mod bomb;
mod commands;
mod cuobjdump;
mod damaged;
mod fixtures;
mod libraries;
mod pack;

use cuobjdump::{Resources, Said};
use fixtures::{FIXTURES, fixture};
use ptxkit::image::{self, Compression, EntryKind, FileKind, Image, ImageError, Unpacker};

/// The same of what this crate reads.
fn read(bytes: &[u8]) -> Result<Said, ImageError> {
    let contents = image::contents(bytes)?.linked();
    let mut said = Said::default();
    let mut unpacker = Unpacker::default();
    for entry in contents.entries() {
        match entry.kind {
            EntryKind::Elf => {
                // cuobjdump names the files of these without the suffix `f`.
                let target = entry.target.to_string();
                said.list
                    .push(format!("ELF {}", target.trim_end_matches('f')));
                if let Image::Cubin(cubin) = image::open(unpacker.unpack(&entry)?)? {
                    said.resources.push(Resources::of(&cubin.contents()?));
                }
            }
            EntryKind::Ptx => said.list.push(format!("PTX {}", entry.target)),
            _ => {}
        }
    }
    for found in image::ptx_texts(bytes)? {
        said.ptx.push(found?.text.into_owned());
    }
    Ok(said)
}

#[test]
fn lists_are_those_of_cuobjdump() {
    let recorded = cuobjdump::recorded();
    for (name, bytes) in FIXTURES {
        let said = &recorded[*name];
        assert!(!said.list.is_empty(), "{name}");
        assert_eq!(read(bytes).unwrap().list, said.list, "{name}");
    }
}

#[test]
fn resources_are_those_of_cuobjdump() {
    let recorded = cuobjdump::recorded();
    for (name, bytes) in FIXTURES {
        let (ours, theirs) = (read(bytes).unwrap().resources, &recorded[*name].resources);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            assert_eq!(ours, theirs, "{name}, cubin {index}");
        }
    }
}

#[test]
fn ptx_is_that_of_cuobjdump_byte_for_byte() {
    let recorded = cuobjdump::recorded();
    let mut put_back = 0;
    for (name, bytes) in FIXTURES {
        let (ours, theirs) = (read(bytes).unwrap().ptx, &recorded[*name].ptx);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            if theirs.contains(".version") {
                assert_eq!(ours, theirs, "{name}");
            } else {
                // cuobjdump leaves it out where nvFatbin has taken it out: no compiler takes that.
                let line = ours
                    .lines()
                    .find(|line| line.starts_with(".version "))
                    .unwrap();
                assert_eq!(&ours.replacen(line, "", 1), theirs, "{name}");
                put_back += 1;
            }
        }
    }
    assert!(put_back > 20, "{put_back}");
}

#[test]
fn parameters_and_launch_bounds_are_read() {
    let contents = image::contents(fixture("kernels.fatbin")).unwrap();
    let mut seen = 0;
    for entry in contents
        .entries()
        .filter(|entry| entry.kind == EntryKind::Elf)
    {
        let bytes = entry.unpack().unwrap();
        let Image::Cubin(cubin) = image::open(&bytes).unwrap() else {
            panic!("no cubin")
        };
        assert_eq!(cubin.target.number, entry.target.number);
        let kernels = cubin.contents().unwrap().kernels;
        let params = |name: &str| -> Vec<(u32, u32)> {
            let kernel = kernels
                .iter()
                .find(|kernel| kernel.name.contains(name))
                .unwrap();
            kernel
                .params
                .iter()
                .map(|param| (param.offset, param.size))
                .collect()
        };
        assert_eq!(params("shared_sum"), [(0, 8), (8, 20), (28, 4)]);
        assert_eq!(params("on_the_stack"), [(0, 8), (8, 1)]);
        assert_eq!(params("large"), [(0, 8000), (8000, 4), (8008, 8)]);
        assert_eq!(params("copyIs"), [(0, 2), (8, 8)]);
        let bounded = kernels
            .iter()
            .find(|kernel| kernel.max_threads.is_some())
            .unwrap();
        assert!(bounded.name.contains("shared_sum"));
        assert_eq!(bounded.max_threads, Some([256, 1, 1]));
        assert_eq!(bounded.param_bytes, 32);
        seen += 1;
    }
    assert_eq!(seen, 3);
}

#[test]
fn every_kind_and_packing_is_told() {
    let of = |name| image::contents(fixture(name)).unwrap();
    let compressions = |name| -> Vec<Compression> {
        let mut found: Vec<_> = of(name).entries().map(|entry| entry.compression).collect();
        found.dedup();
        found
    };
    assert_eq!(compressions("every-zstd.fatbin"), [Compression::Zstd]);
    assert_eq!(compressions("every-lz4.fatbin"), [Compression::Lz4]);
    assert_eq!(compressions("unpacked.fatbin"), [Compression::None]);
    assert!(
        of("lto.fatbin")
            .entries()
            .any(|entry| entry.kind == EntryKind::LtoIr)
    );
    assert_eq!(of("library.so").file_kind, FileKind::Program);
    assert_eq!(of("archive.a").file_kind, FileKind::Archive);
    let archive = of("archive.a");
    let members: Vec<_> = archive
        .pieces
        .iter()
        .map(|piece| piece.member.as_deref())
        .collect();
    assert_eq!(
        members,
        [Some("kernels_with_a_long_name.o"), Some("kernels.o")]
    );
    assert!(of("relocatable.o").pieces[0].relocatable);
    let debug = of("debug.fatbin");
    assert!(debug.entries().all(|entry| entry.name == "kernels.cu"));
    assert!(debug.entries().any(|entry| entry.options.contains("-g")));
}

#[test]
fn what_only_nvidias_tools_read_is_an_error_of_its_own() {
    let contents = image::contents(fixture("lto.fatbin")).unwrap();
    let entry = contents
        .entries()
        .find(|entry| entry.kind == EntryKind::LtoIr)
        .unwrap();
    let error = entry.unpack().unwrap_err().to_string();
    assert!(
        error.contains("lto-ir for sm_90") && error.contains("NVIDIA"),
        "{error}"
    );
}

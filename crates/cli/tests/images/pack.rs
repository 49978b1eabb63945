//! Fatbins that are packed from images of other fatbins, and `ptxkit pack`.

use std::path::Path;

use ptxkit::image::{
    self, Compression, Entry, EntryKind, Image, PackError, Packer, Target, Unpacker,
};
use serde_json::Value;

use super::commands::{ptxkit, text, with_fixture};
use super::fixtures::{FIXTURES, fixture};

const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

/// What a list shows of an image.
fn listed(entry: &Entry<'_>) -> (EntryKind, Target, String, String, String) {
    let version = entry.ptx_version.to_string();
    let (name, options) = (entry.name.to_owned(), entry.options.to_owned());
    (entry.kind, entry.target, version, name, options)
}

/// The content of an image, without padding.
fn content(entry: &Entry<'_>) -> Result<Vec<u8>, String> {
    let bytes = entry.unpack().map_err(|error| error.to_string())?;
    let used = bytes.iter().rposition(|byte| *byte != 0);
    Ok(bytes[..used.map_or(0, |last| last + 1)].to_vec())
}

#[test]
fn packed_again_every_image_is_the_same() {
    let mut packed = 0;
    for (name, bytes) in FIXTURES {
        for piece in image::contents(bytes).unwrap().pieces {
            let before = piece.entries();
            for compression in COMPRESSIONS {
                let mut packer = Packer::new(compression);
                packer.add(&piece.image).unwrap();
                let again = packer.finish();
                let Image::Fatbin(again) = image::open(&again).unwrap() else {
                    panic!("{name} is not a fatbin")
                };
                assert_eq!(before.len(), again.entries.len(), "{name}");
                for (before, after) in before.iter().zip(&again.entries) {
                    assert_eq!(listed(before), listed(after), "{name}");
                    if let Ok(before) = content(before) {
                        assert_eq!(Ok(before), content(after), "{name} {compression:?}");
                        assert_eq!(after.compression, compression, "{name}");
                        packed += 1;
                    } else {
                        // LTO-IR, which only NVIDIA's tools read, is copied.
                        assert_eq!(before.payload, after.payload, "{name}");
                    }
                }
            }
        }
    }
    assert!(packed > 500, "{packed}");
}

/// NVIDIA's `fatbinary` wrote the fixture from the same images.
#[test]
fn cubins_of_files_have_the_headers_that_nvidia_writes() {
    let mut unpacker = Unpacker::default();
    for (name, size) in [("every-lz4.fatbin", 26), ("nvfatbin-12.fatbin", 30)] {
        let contents = image::contents(fixture(name)).unwrap();
        let mut cubins = 0;
        for entry in contents
            .entries()
            .filter(|entry| entry.kind == EntryKind::Elf)
        {
            let mut kept = Packer::new(Compression::None);
            kept.add_entry(&entry).unwrap();
            let mut made = Packer::new(Compression::None);
            let cubin = image::open(unpacker.unpack(&entry).unwrap()).unwrap();
            made.add(&cubin).unwrap();
            if entry.name.is_empty() {
                assert_eq!(kept.finish(), made.finish(), "{name}: {}", entry.target);
            } else {
                let made = made.finish();
                let Image::Fatbin(made) = image::open(&made).unwrap() else {
                    panic!("not a fatbin")
                };
                assert_eq!(made.entries[0].target, entry.target, "{name}");
            }
            cubins += 1;
        }
        assert_eq!(cubins, size, "{name}");
    }
}

/// Cubins of some compilers end anywhere, and entries of fatbins at multiples of 8.
#[test]
fn the_padding_of_a_cubin_is_left_out() {
    let contents = image::contents(fixture("kernels.fatbin")).unwrap();
    let mut cubin = contents
        .entries()
        .next()
        .unwrap()
        .unpack()
        .unwrap()
        .into_owned();
    // The table of sections becomes the end of the file, at an odd place.
    let table = u64::from_le_bytes(cubin[40..48].try_into().unwrap()) as usize;
    let size = 64 * usize::from(u16::from_le_bytes(cubin[60..62].try_into().unwrap()));
    let moved = (cubin.len() as u64 + 3).to_le_bytes();
    cubin.extend([1, 2, 3]);
    cubin.extend_from_within(table..table + size);
    cubin[40..48].copy_from_slice(&moved);
    for compression in COMPRESSIONS {
        let mut packer = Packer::new(compression);
        packer.add(&image::open(&cubin).unwrap()).unwrap();
        let bytes = packer.finish();
        let found = image::contents(&bytes).unwrap().entries().next().unwrap();
        assert_eq!(*found.unpack().unwrap(), *cubin, "{compression:?}");
        assert_eq!(found.size, cubin.len() as u64);
    }
}

#[test]
fn images_that_a_fatbin_cannot_describe_are_refused() {
    let add = |bytes: &[u8]| Packer::new(Compression::None).add(&image::open(bytes).unwrap());
    assert_eq!(
        add(b".target sm_80\n"),
        Err(PackError::Directive(".version"))
    );
    assert_eq!(add(b".version 8.0\n"), Err(PackError::Directive(".target")));
    let error = add(b"PTXKCPU").unwrap_err();
    assert!(error.to_string().contains("CPU device"), "{error}");
}

/// ptxas rejects a byte order mark.
#[test]
fn a_byte_order_mark_is_left_out() {
    let mut packer = Packer::new(Compression::Lz4);
    let text = b"\xef\xbb\xbf.version 8.0\n.target sm_90a\n";
    packer.add(&image::open(text).unwrap()).unwrap();
    let bytes = packer.finish();
    let Image::Fatbin(fatbin) = image::open(&bytes).unwrap() else {
        panic!("not a fatbin")
    };
    let text = fatbin.entries[0].ptx().unwrap();
    assert_eq!(text, ".version 8.0\n.target sm_90a\n");
    assert_eq!(fatbin.entries[0].target.to_string(), "sm_90a");
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let all = [arguments, &["--format", "json"]].concat();
    serde_json::from_str(&text(&ptxkit(folder, &all))).unwrap()
}

#[test]
fn extract_and_pack_are_inverses() {
    let folder = with_fixture("kernels.fatbin");
    let folder = folder.path();
    text(&ptxkit(
        folder,
        &["extract", "kernels.fatbin", "-o", "before"],
    ));
    let files = [
        "before/kernels.0.sm_80.cubin",
        "before/kernels.1.sm_90.cubin",
        "before/kernels.2.sm_100f.cubin",
        "before/kernels.3.sm_100f.ptx",
    ];
    for compression in ["none", "lz4", "zstd"] {
        let pack = [
            &["pack"],
            &files[..],
            &["-o", "k.fatbin", "--compress", compression],
        ]
        .concat();
        let packed = json(folder, &pack);
        assert_eq!(packed["images"][2]["arch"], "sm_100f");
        assert_eq!(packed["images"][2]["file"], files[2]);
        let listed = json(folder, &["inspect", "k.fatbin"]);
        let before = json(folder, &["inspect", "kernels.fatbin"]);
        for (one, other) in listed
            .as_array()
            .unwrap()
            .iter()
            .zip(before.as_array().unwrap())
        {
            for key in ["kind", "arch", "ptx_version", "kernels", "fatbin"] {
                assert_eq!(one[key], other[key], "{key}");
            }
            assert_eq!(one["compression"], compression);
        }
        text(&ptxkit(folder, &["extract", "k.fatbin", "-o", "after"]));
        for file in files {
            let after = file.replace("before/kernels", "after/k");
            let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
            assert_eq!(read(file), read(&after), "{after}");
        }
        for target in ["sm_86", "sm_90", "sm_103"] {
            let explain = |file| json(folder, &["explain", file, "--target", target]);
            assert_eq!(explain("k.fatbin"), explain("kernels.fatbin"), "{target}");
        }
    }
}

#[test]
fn an_embedded_fatbin_is_found_again() {
    let folder = with_fixture("unpacked.fatbin");
    let folder = folder.path();
    text(&ptxkit(
        folder,
        &["pack", "unpacked.fatbin", "-o", "k.fatbin"],
    ));
    let fatbin = std::fs::read(folder.join("k.fatbin")).unwrap();

    let object = json(
        folder,
        &["pack", "k.fatbin", "--embed", "object", "-o", "a-b.o"],
    );
    assert_eq!(object["symbol"], "a_b");
    let images = |file| json(folder, &["inspect", file]).as_array().unwrap().len();
    assert_eq!(images("a-b.o"), images("k.fatbin"));
    let bytes = std::fs::read(folder.join("a-b.o")).unwrap();
    let contents = image::contents(&bytes).unwrap();
    let Image::Fatbin(found) = &contents.pieces[0].image else {
        panic!("not a fatbin")
    };
    assert_eq!(found.bytes, fatbin);
    assert_eq!(contents.pieces[0].offset % 8, 0);
    text(&ptxkit(folder, &["pack", "a-b.o", "-o", "again.fatbin"]));
    assert_eq!(std::fs::read(folder.join("again.fatbin")).unwrap(), fatbin);

    let embed = |language, file| {
        let arguments = [
            "pack", "k.fatbin", "--embed", language, "--symbol", "K9", "-o", file,
        ];
        text(&ptxkit(folder, &arguments));
        std::fs::read_to_string(folder.join(file)).unwrap()
    };
    let c = embed("c", "k.c");
    let size = fatbin.len();
    assert!(
        c.contains(&format!("const unsigned long long K9_size = {size};")),
        "{c}"
    );
    let (_, numbers) = c.split_once("] = {\n").unwrap();
    let (numbers, _) = numbers.split_once('}').unwrap();
    let numbers: String = numbers.split_whitespace().collect();
    let bytes: Vec<u8> = numbers
        .trim_end_matches(',')
        .split(',')
        .map(|n| n.parse().unwrap())
        .collect();
    assert_eq!(bytes, fatbin);

    let rust = embed("rust", "k.rs");
    assert!(rust.contains("pub static K9: &[u8] = {"), "{rust}");
    let (_, literal) = rust.split_once("*b\"").unwrap();
    let (literal, _) = literal.split_once('"').unwrap();
    let mut characters = literal.chars();
    let mut bytes = Vec::new();
    while let Some(character) = characters.next() {
        bytes.push(match character {
            '\\' => match characters.next().unwrap() {
                '\n' => continue,
                'x' => {
                    let digits: String = characters.by_ref().take(2).collect();
                    u8::from_str_radix(&digits, 16).unwrap()
                }
                other => panic!("{other}"),
            },
            _ => u8::try_from(character).unwrap(),
        });
    }
    assert_eq!(bytes, fatbin);
}

#[test]
fn inputs_that_cannot_be_packed_are_explained() {
    let folder = with_fixture("library.so");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("archive.a", fixture("archive.a"));
    write("empty", b"");
    write(
        "host",
        &std::fs::read(std::env::current_exe().unwrap()).unwrap(),
    );
    let cut = fixture("kernels.fatbin");
    write("cut.fatbin", &cut[..cut.len() - 8]);
    let mut damaged = fixture("every-lz4.fatbin").to_vec();
    let size = u64::from_le_bytes(damaged[72..80].try_into().unwrap());
    damaged[72..80].copy_from_slice(&(size + 1).to_le_bytes());
    write("damaged.fatbin", &damaged);
    write(
        "k.cubin",
        &image::contents(fixture("unpacked.fatbin"))
            .unwrap()
            .entries()
            .next()
            .unwrap()
            .unpack()
            .unwrap(),
    );
    for (arguments, status, words) in [
        (&["archive.a", "-o", "o"][..], 2, "it has 2 fatbins"),
        (&["empty", "-o", "o"], 2, "it is empty"),
        (&["host", "-o", "o"], 2, "without images for a GPU"),
        (&["none.ptx", "-o", "o"], 2, "none.ptx: No such file"),
        (&["cut.fatbin", "-o", "o"], 2, "the fatbin is truncated"),
        (
            &["damaged.fatbin", "--compress", "none", "-o", "o"],
            1,
            "at offset 80 cannot be unpacked",
        ),
        (
            &["k.cubin", "-o", "k.cubin"],
            2,
            "the output would replace this file",
        ),
        (
            &["./k.cubin", "--embed", "c", "-o", "k.cubin"],
            2,
            "the output would replace this file",
        ),
        (
            &["k.cubin", "-o", "o", "--embed", "c", "--symbol", "a-b"],
            2,
            "`a-b` is not an identifier",
        ),
        (&["k.cubin", "-o", "o", "--symbol", "a"], 2, "--embed"),
        (&["k.cubin"], 2, "--output"),
    ] {
        let output = ptxkit(folder.path(), &[&["pack"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!folder.path().join("o").exists(), "{arguments:?}");
    }
}

#[test]
fn two_images_for_one_target_are_a_warning() {
    let folder = with_fixture("unpacked.fatbin");
    let pack = [
        "pack",
        "unpacked.fatbin",
        "unpacked.fatbin",
        "-o",
        "twice.fatbin",
    ];
    let output = ptxkit(folder.path(), &pack);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    text(&output);
    assert!(
        said.contains("warning: unpacked.fatbin: unpacked.fatbin also has cubin for sm_90a"),
        "{said}"
    );
    let mut fatbin = std::fs::read(folder.path().join("twice.fatbin")).unwrap();
    // A fatbin may be packed into itself.
    text(&ptxkit(
        folder.path(),
        &["pack", "twice.fatbin", "-o", "twice.fatbin"],
    ));
    assert_eq!(
        std::fs::read(folder.path().join("twice.fatbin")).unwrap(),
        fatbin
    );
    // A damaged image that a device would load is said by `explain`.
    fatbin.truncate(16);
    std::fs::write(folder.path().join("head.fatbin"), fatbin).unwrap();
    let explain = ["explain", "head.fatbin", "--target", "sm_90"];
    assert_eq!(ptxkit(folder.path(), &explain).status.code(), Some(2));
}

#[test]
fn explain_says_that_the_selected_image_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fixture("unpacked.fatbin").to_vec();
    let entries = image::contents(fixture("unpacked.fatbin")).unwrap();
    let at = |entry: &Entry<'_>| entry.kind == EntryKind::Elf && entry.target.number == 90;
    let offset = entries.entries().find(at).unwrap().offset as usize;
    // The offset of the section table.
    bytes[offset + 40..offset + 48].fill(0x7f);
    std::fs::write(folder.path().join("bad.fatbin"), bytes).unwrap();
    let explain = |target| {
        ptxkit(
            folder.path(),
            &["explain", "bad.fatbin", "--target", target],
        )
    };
    let output = explain("sm_90");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("cubin for sm_90a") && said.contains("it is damaged"),
        "{said}"
    );
    assert!(said.contains("offset 9187201950435737471"), "{said}");
    assert_eq!(explain("sm_75").status.code(), Some(0));
}

#[test]
fn standard_input_and_output_are_dashes() {
    let folder = with_fixture("unpacked.fatbin");
    let folder = folder.path();
    let pack = ["pack", "unpacked.fatbin", "-o", "k.fatbin"];
    text(&ptxkit(folder, &pack));
    let program = std::env::var_os("PTXKIT_BIN").unwrap_or(env!("CARGO_BIN_EXE_ptxkit").into());
    let output = std::process::Command::new(program)
        .args(["pack", "-", "-o", "-"])
        .stdin(std::fs::File::open(folder.join("unpacked.fatbin")).unwrap())
        .output()
        .unwrap();
    assert_eq!(
        output.stdout,
        std::fs::read(folder.join("k.fatbin")).unwrap()
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("<stdin>\n<stdout>  "), "{said}");
}

/// C and C++ compilers accept the source, and the linker the object.
#[test]
fn a_program_links_with_an_embedded_fatbin() {
    let folder = with_fixture("unpacked.fatbin");
    let folder = folder.path();
    text(&ptxkit(
        folder,
        &["pack", "unpacked.fatbin", "-o", "k.fatbin"],
    ));
    let size = std::fs::metadata(folder.join("k.fatbin")).unwrap().len();
    let main = "extern const unsigned char k[];\nextern const unsigned long long k_size;\n\
                int main(void) { return ((unsigned long)k % 8) || k[0] != 0x50 || k_size != ";
    std::fs::write(folder.join("main.c"), format!("{main}{size}; }}\n")).unwrap();
    for (embed, file) in [("c", "k.c"), ("object", "k.o")] {
        text(&ptxkit(
            folder,
            &["pack", "k.fatbin", "--embed", embed, "-o", file],
        ));
        let mut cc = std::process::Command::new("cc");
        let built = cc.args(["-Wall", "-Werror", "main.c", file, "-o", "main"]);
        let Ok(built) = built.current_dir(folder).output() else {
            return; // a packed test, where there is no compiler
        };
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success() && said.is_empty(), "{said}");
        let main = std::process::Command::new(folder.join("main")).status();
        assert!(main.unwrap().success(), "{embed}");
        let listed = text(&ptxkit(folder, &["inspect", "main"]));
        assert_eq!(listed, text(&ptxkit(folder, &["inspect", "k.fatbin"])));
    }
}

//! The library in front of the CPU device, under a C program that opens `libcuda.so.1`.

mod place;

use std::path::Path;

use place::{Place, built, text};

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry k(.param .u64 out) {\n\
    .reg .b64 %a, %b;\n.reg .b32 %t;\n\
    ld.param.u64 %a, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %b, %t, 4;\nadd.u64 %a, %a, %b;\n\
    mul.lo.u32 %t, %t, 3;\nst.global.u32 [%a], %t;\nret;\n}\n";
const RESULT: &str = "0 3 6 9\n";

fn place() -> Place {
    Place::new("program.c", PTX)
}

#[test]
fn each_way_to_load_is_served_from_the_cache() {
    for way in [
        "data",
        "data-ex",
        "fatbinary",
        "file",
        "library",
        "library-file",
    ] {
        let place = place();
        for how in ["compiled", "from the cache"] {
            let ran = place.run(&[way]);
            let (out, report) = (text(&ran.stdout), text(&ran.stderr));
            assert_eq!(out, RESULT, "{way}: {report}");
            let lines: Vec<&str> = report.lines().collect();
            let [line] = lines[..] else {
                panic!("{way}: {report}")
            };
            assert!(
                line.starts_with("ptxkit: cu") && line.contains(how),
                "{way}: {line}"
            );
        }
        // The same by the exported names.
        let ran = place
            .command(&[way])
            .env("BY_SYMBOL", "1")
            .output()
            .unwrap();
        assert_eq!(text(&ran.stdout), RESULT);
        assert!(text(&ran.stderr).contains("from the cache"));
    }
}

/// A link of one PTX text is a compilation.
#[test]
fn links_of_one_text_come_from_the_cache() {
    let place = place();
    for how in ["compiled", "from the cache"] {
        let ran = place.run(&["link"]);
        let report = text(&ran.stderr);
        assert_eq!(text(&ran.stdout), RESULT, "{report}");
        assert!(
            report.contains("cuLinkComplete: PTX for sm_80") && report.contains(how),
            "{report}"
        );
    }
    // The code is that of a load.
    let ran = place.run(&["data"]);
    assert!(text(&ran.stderr).contains("from the cache"));
    let ran = place.run(&["link-two"]);
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
    assert!(
        !text(&ran.stderr).contains("cuLinkComplete"),
        "{}",
        text(&ran.stderr)
    );
    // The driver's error.
    std::fs::write(
        place.folder.path().join("k.ptx"),
        PTX.replace("ret;", "rot;"),
    )
    .unwrap();
    let ran = place.run(&["link"]);
    assert!(
        text(&ran.stdout).contains("cuLinkAddData") && text(&ran.stdout).contains(": 218"),
        "{}",
        text(&ran.stdout)
    );
}

#[test]
fn what_is_in_doubt_is_forwarded() {
    let place = place();
    for (variable, value, why) in [
        ("PTXKIT_INTERPOSE", "0", "PTXKIT_INTERPOSE"),
        ("CUDA_CACHE_DISABLE", "1", "the compute cache is disabled"),
    ] {
        let ran = place
            .command(&["data"])
            .env(variable, value)
            .output()
            .unwrap();
        assert_eq!(text(&ran.stdout), RESULT);
        let report = text(&ran.stderr);
        assert!(
            report.contains("forwarded") && report.contains(why),
            "{report}"
        );
    }
    let ran = place.run(&["unknown-option"]);
    assert!(
        text(&ran.stderr).contains("forwarded: option 9"),
        "{}",
        text(&ran.stderr)
    );
    assert_eq!(text(&ran.stdout), RESULT);
}

/// The driver's error, number and log are the program's.
#[test]
fn ptx_that_does_not_compile_is_the_drivers_error() {
    let place = place();
    let wrong = PTX.replace("ret;", "rot;");
    std::fs::write(place.folder.path().join("k.ptx"), wrong).unwrap();
    let ran = place.run(&["data-ex"]);
    let bare = place
        .command(&["data-ex"])
        .env("PTXKIT_INTERPOSE", "0")
        .output()
        .unwrap();
    assert!(text(&ran.stdout).contains("218"), "{}", text(&ran.stdout));
    assert!(text(&ran.stdout).contains("rot"));
    // The report has the line.
    let report = text(&ran.stderr);
    assert!(
        report.contains("PTX:13:1") && report.contains("rot;"),
        "{report}"
    );
    assert_eq!(text(&ran.stdout), text(&bare.stdout));
    assert_eq!(ran.status.code(), bare.status.code());
}

#[test]
fn the_driver_is_found_and_never_this_library() {
    let place = place();
    let driver = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        built().join("libcuda.so"),
        driver.path().join("libcuda.so.1"),
    )
    .unwrap();
    let path = |folders: &[&Path]| std::env::join_paths(folders).unwrap();
    let own = place.folder.path();
    let ran = place
        .command(&["data"])
        .env_remove("PTXKIT_REAL_LIBCUDA")
        .env("LD_LIBRARY_PATH", path(&[own, driver.path()]))
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
    // A copy of it is not taken for the driver.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(
        built().join("libptxkit_interposer.so"),
        copy.path().join("libcuda.so.1"),
    )
    .unwrap();
    let ran = place
        .command(&["data"])
        .env_remove("PTXKIT_REAL_LIBCUDA")
        .env("LD_LIBRARY_PATH", path(&[own, copy.path(), driver.path()]))
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("another copy of the interposer"));
    // Without a driver, there is no device.
    let ran = place
        .command(&["data"])
        .env("PTXKIT_REAL_LIBCUDA", copy.path().join("absent.so"))
        .output()
        .unwrap();
    assert!(text(&ran.stdout).contains("100"), "{}", text(&ran.stdout));
}

/// Programs that do not find the library run as without it.
#[test]
fn programs_open_the_driver_in_other_ways() {
    let place = place();
    let driver = built().join("libcuda.so");
    let mut by_path = place.command(&["data"]);
    let ran = by_path.env("OPEN", &driver).output().unwrap();
    assert_eq!(text(&ran.stdout), RESULT);
    assert_eq!(text(&ran.stderr), "");
    // The driver has the same SONAME, and is loaded behind the library.
    let ran = place
        .command(&["data"])
        .env("NOLOAD", "1")
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT);
    assert!(text(&ran.stderr).contains("cuModuleLoadData: PTX"));
    // DT_RPATH comes before LD_LIBRARY_PATH.
    let folder = place.folder.path().join("driver");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&driver, folder.join("libcuda.so.1")).unwrap();
    let program = place.folder.path().join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program.c");
    let path = format!("-Wl,--disable-new-dtags,-rpath,{}", folder.display());
    let mut compiler = std::process::Command::new("cc");
    compiler
        .args(["-w", "-std=gnu11", source, "-ldl", &path, "-o"])
        .arg(&program);
    assert!(compiler.status().unwrap().success());
    let ran = place.command_of(&program, &["data"]).output().unwrap();
    assert_eq!(text(&ran.stdout), RESULT);
    assert_eq!(text(&ran.stderr), "");
}

#[test]
fn processes_compile_once_and_forks_work() {
    let place = place();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = place.command(&["data", "library"]);
            command.stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut compiled = 0;
    for child in children {
        let ran = child.wait_with_output().unwrap();
        assert_eq!(text(&ran.stdout), RESULT.repeat(2));
        compiled += text(&ran.stderr).matches(", compiled in").count();
    }
    assert_eq!(compiled, 1);
    let ran = place.run(&["fork", "data"]);
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
}

/// The driver decides about images that are none, and about text that ends in the middle.
#[test]
fn images_that_cannot_be_read_are_the_drivers_error() {
    let place = place();
    for image in [
        "GARBAGE",
        "",
        &PTX[..PTX.len() / 2],
        "\x7fELFxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        std::fs::write(place.folder.path().join("k.ptx"), image).unwrap();
        let ran = place.run(&["data-ex"]);
        let bare = place
            .command(&["data-ex"])
            .env("PTXKIT_INTERPOSE", "0")
            .output()
            .unwrap();
        assert_eq!(text(&ran.stdout), text(&bare.stdout), "{image}");
        assert!(
            text(&ran.stderr).contains("forwarded: "),
            "{}",
            text(&ran.stderr)
        );
    }
}

/// What is wrong in the cache's folder is compiled anew.
#[test]
fn damaged_code_is_compiled_again() {
    let place = place();
    assert_eq!(text(&place.run(&["data"]).stdout), RESULT);
    let mut damaged = 0;
    for entry in walk(&place.folder.path().join("cache")) {
        let mut bytes = std::fs::read(&entry).unwrap();
        if bytes.len() > 500 {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            std::fs::write(&entry, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let ran = place.run(&["data"]);
    assert_eq!(text(&ran.stdout), RESULT);
    assert!(
        text(&ran.stderr).contains(", compiled in"),
        "{}",
        text(&ran.stderr)
    );
}

/// The files in a folder and its folders.
fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// A cache that is too small for anything.
#[test]
fn a_full_cache_is_no_reason_to_fail() {
    let place = place();
    let ran = place
        .command(&["data", "library"])
        .env("CUDA_CACHE_MAXSIZE", "1")
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT.repeat(2), "{}", text(&ran.stderr));
}

/// A folder that cannot be written is no reason to fail.
#[test]
fn a_cache_that_cannot_be_written_is_one() {
    let place = place();
    let ran = place
        .command(&["data"])
        .env("CUDA_CACHE_PATH", "/proc/nope")
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
}

/// A service whose code must be in the cache.
#[test]
fn compilations_can_be_forbidden() {
    let place = place();
    let forbidden = |ways: &[&str]| {
        let mut command = place.command(ways);
        command.env("PTXKIT_ON_COMPILE", "error").output().unwrap()
    };
    for way in ["data", "library", "file", "unknown-option"] {
        let ran = forbidden(&[way]);
        assert!(
            text(&ran.stdout).contains(": 223"),
            "{way}: {}",
            text(&ran.stdout)
        );
        assert!(
            text(&ran.stderr).contains("refused: "),
            "{way}: {}",
            text(&ran.stderr)
        );
    }
    let warned = place
        .command(&["data"])
        .env("PTXKIT_ON_COMPILE", "warn")
        .env_remove("PTXKIT_REPORT")
        .output();
    let warned = warned.unwrap();
    assert_eq!(text(&warned.stdout), RESULT);
    assert!(
        text(&warned.stderr).contains("while the program runs"),
        "{}",
        text(&warned.stderr)
    );
    let ran = forbidden(&["data", "library"]);
    assert_eq!(text(&ran.stdout), RESULT.repeat(2), "{}", text(&ran.stderr));
}

/// A guest in a foreign process: no names of its own but one, and no thread-local storage that needs room in advance.
#[test]
fn the_library_exports_the_names_of_the_driver() {
    let library = built().join("libptxkit_interposer.so");
    let run = |program: &str, flags: &[&str]| {
        let output = std::process::Command::new(program)
            .args(flags)
            .arg(&library)
            .output();
        text(&output.unwrap().stdout)
    };
    let symbols = run("nm", &["-D", "--defined-only"]);
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    exported.retain(|name| *name != "ptxkitInterposer");
    exported.sort_unstable();
    let mut names: Vec<&str> = include_str!("../names.txt").lines().collect();
    names.sort_unstable();
    assert_eq!(exported, names);
    let dynamic = run("readelf", &["-dW"]);
    assert!(
        dynamic.contains("[libcuda.so.1]") && !dynamic.contains("STATIC_TLS"),
        "{dynamic}"
    );
}

/// Two machines are two folders, and a third is the store that they share.
#[cfg(feature = "remote")]
#[test]
fn a_remote_store_has_what_another_machine_compiled() {
    use ptxkit::cache::remote::SigningKey;
    let place = place();
    let path = place.folder.path();
    let key = SigningKey::create(&path.join("key")).unwrap();
    let machine = |name: &str| {
        let mut command = place.command(&["data", "library"]);
        command
            .env("CUDA_CACHE_PATH", path.join(name))
            .env(
                "PTXKIT_REMOTE",
                format!("file://{}?wait=2s", path.join("store").display()),
            )
            .env("PTXKIT_REMOTE_TRUST", key.public().to_string())
            .env("PTXKIT_REMOTE_SIGN", path.join("key"));
        command.output().unwrap()
    };
    for (name, compiled) in [("a", 1), ("b", 0)] {
        let ran = machine(name);
        let report = text(&ran.stderr);
        assert_eq!(text(&ran.stdout), RESULT.repeat(2), "{report}");
        assert_eq!(
            report.matches(", compiled in").count(),
            compiled,
            "{report}"
        );
    }
    // A store that does not answer is no reason to fail.
    let ran = place
        .command(&["data"])
        .env("PTXKIT_REMOTE", "redis://127.0.0.1:9/0")
        .env("PTXKIT_REMOTE_TRUST", key.public().to_string())
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT, "{}", text(&ran.stderr));
}

#[cfg(not(feature = "remote"))]
#[test]
fn a_store_that_is_not_built_in_is_named() {
    let place = place();
    let ran = place
        .command(&["data"])
        .env("PTXKIT_REMOTE", "redis://127.0.0.1:9/0")
        .env_remove("PTXKIT_REPORT")
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout), RESULT);
    assert!(
        text(&ran.stderr).contains("--features remote"),
        "{}",
        text(&ran.stderr)
    );
}

//! Modules that are cut, in front of the CPU device: a C program prints the same as without the library.

mod place;

use std::fmt::Write as _;

use place::{Place, text};

/// A module of 40 kernels: the first two write a variable that they share, the next read one of the host, and the others
/// share nothing.
fn module() -> String {
    let mut ptx = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .global .align 4 .u32 counter = 5;\n.const .align 4 .u32 factor = 2;\n\
        .visible .global .align 4 .u32 shown = 3;\n.global .align 4 .u32 unused = 9;\n"
        .to_owned();
    for kernel in 0..40 {
        let value = match kernel {
            0 | 1 => {
                "ld.const.u32 %u, [factor]; mul.lo.u32 %t, %t, %u; atom.global.add.u32 %u, [counter], 1; \
                 add.u32 %t, %t, %u;"
            }
            2 | 3 => "ld.global.u32 %u, [shown]; add.u32 %t, %t, %u;",
            _ => "",
        };
        let filler = "xor.b32 %t, %t, 1;\nxor.b32 %t, %t, 1;\n".repeat(60);
        let _ = write!(
            ptx,
            ".visible .entry k{kernel}(.param .u64 out) {{\n.reg .b64 %a, %b;\n.reg .b32 %t, %u;\n\
             ld.param.u64 %a, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %b, %t, 4;\nadd.u64 %a, %a, %b;\n\
             {value}\n{filler}add.u32 %t, %t, {kernel};\nst.global.u32 [%a], %t;\nret;\n}}\n"
        );
    }
    ptx
}

fn place() -> Place {
    Place::new("sliced.c", &module())
}

#[test]
fn programs_print_the_same_as_without_the_library() {
    for way in ["library", "module", "capture", "all", "reset"] {
        let place = place();
        let mut bare = place.command(&[way]);
        let bare = bare.env("PTXKIT_INTERPOSE", "0").output().unwrap();
        let expected = text(&bare.stdout);
        assert!(bare.status.success() && expected.len() > 200, "{expected}");
        for how in ["compiled", "from the cache"] {
            let ran = place.run(&[way]);
            let report = text(&ran.stderr);
            assert_eq!(text(&ran.stdout), expected, "{way}: {report}");
            assert!(report.contains("39 slices to be compiled"), "{report}");
            let compiled = report.matches(", compiled in").count();
            assert_eq!(compiled > 0, how == "compiled", "{way}: {report}");
        }
    }
}

/// One use of a kernel compiles one slice.
#[test]
fn only_slices_that_are_used_are_compiled() {
    let place = place();
    let ran = place.run(&["capture"]);
    let report = text(&ran.stderr);
    assert_eq!(report.lines().count(), 2, "{report}");
    assert!(
        report.contains("cuLibraryGetKernel: `k3`, compiled in"),
        "{report}"
    );
    // A process that uses them one after another has most of them compiled ahead.
    let ran = place.run(&["all"]);
    let report = text(&ran.stderr);
    let waited = report.matches(", compiled in").count();
    assert!(waited < 39, "{report}");
}

#[test]
fn small_modules_and_others_stay_whole() {
    let place = place();
    for (variable, value) in [("PTXKIT_SLICED", "never"), ("CUDA_MODULE_LOADING", "EAGER")] {
        let ran = place
            .command(&["library"])
            .env(variable, value)
            .output()
            .unwrap();
        let report = text(&ran.stderr);
        assert!(!report.contains("slices"), "{variable}: {report}");
        assert!(
            text(&ran.stdout).contains("k0: 0: "),
            "{}",
            text(&ran.stdout)
        );
    }
}

#[test]
fn a_slice_that_must_not_be_compiled_is_an_error_of_its_use() {
    let place = place();
    let ran = place
        .command(&["capture"])
        .env("PTXKIT_ON_COMPILE", "error")
        .output()
        .unwrap();
    let (out, report) = (text(&ran.stdout), text(&ran.stderr));
    assert!(
        out.contains("cuLibraryLoadData 0\n") && out.contains("cuLibraryGetKernel 223\n"),
        "{out}"
    );
    assert!(report.contains("PTXKIT_ON_COMPILE"), "{report}");
}

/// The list has all that the program used, compiled or cached, so that a job can compile it before.
#[test]
fn the_list_of_compiles_has_the_kernels_that_were_used() {
    let place = place();
    let file = place.folder.path().join("compiles.jsonl");
    for _ in 0..2 {
        let mut command = place.command(&["capture"]);
        command.env("PTXKIT_SAVE_COMPILES", &file);
        assert!(command.output().unwrap().status.success());
        let modules = compiles::read(&file).unwrap();
        let [saved] = &modules[..] else {
            panic!("{modules:?}")
        };
        assert_eq!(saved.ptx, module());
        assert_eq!(saved.used.as_deref(), Some(&["k3".to_owned()][..]));
    }
    let mut command = place.command(&["capture"]);
    command.env("PTXKIT_SAVE_COMPILES", "/proc/nope");
    command.env_remove("PTXKIT_REPORT");
    let ran = command.output().unwrap();
    assert!(ran.status.success());
    assert_eq!(
        text(&ran.stderr).lines().count(),
        1,
        "{}",
        text(&ran.stderr)
    );
}

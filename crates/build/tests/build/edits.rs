//! Edits of modules that were read.

use ptx::ast::Span;
use ptx::names::{Modifier, Opcode};
use ptxkit_build::edit::{Edit, Edited};
use ptxkit_build::{Error, Global, Ptr, Register, special};

use crate::programs;

const COLLATZ: &str = include_str!("../../../../examples/collatz.ptx");

/// The parts of the new text that the source has, put together.
fn kept(edited: &Edited, source: &str) -> String {
    let bytes = (0..edited.ptx.text().len() as u32).filter_map(|offset| edited.origin(offset));
    let bytes = bytes.map(|offset| source.as_bytes()[offset as usize]);
    String::from_utf8(bytes.collect()).unwrap()
}

#[test]
fn code_before_and_after_every_instruction_keeps_the_rest() {
    let programs = [
        programs::block_sums(),
        programs::collatz(),
        programs::parts(),
    ];
    let built: Vec<_> = programs.map(|module| module.finish().unwrap()).into();
    for source in built.iter().map(|ptx| ptx.text()).chain([COLLATZ]) {
        let mut edit = Edit::new("k.ptx", source).unwrap();
        let counts = edit.declarations().global_zeroed::<u32>("counts", 2);
        for site in edit.instructions() {
            edit.before(&site, |k| {
                k.if_(k.special(special::TID_X).eq(0), || {
                    k.variable(&counts).atomic_add(1);
                });
            });
            // A label may stand behind it, and a `ret` has nothing behind it.
            edit.after(&site, |k| k.variable(&counts).at(1).reduce_add(1));
        }
        let edited = edit.finish().unwrap();
        assert_eq!(kept(&edited, source), source);
        let sites = Edit::new("k.ptx", source).unwrap().instructions().len();
        let count = |text| edited.ptx.text().matches(text).count();
        assert_eq!(
            count("atom.global.add.u32"),
            sites + usize::from(source.contains("atom.global.add.u32"))
        );
    }
}

#[test]
fn every_kind_of_edit() {
    let mut edit = Edit::new("collatz.ptx", COLLATZ).unwrap();
    edit.rename("steps", "collatz").unwrap();
    edit.rename_in("steps", "%r", "%word").unwrap();
    edit.rename_in("steps", "$L__BB0_3", "$loop").unwrap();
    edit.rename_in("steps", "steps_param_2", "n").unwrap();
    let trace = edit.param::<Ptr<u64, Global>>("steps", "trace").unwrap();
    edit.at_start("steps", |k| k.comment("Traced.")).unwrap();
    for site in edit.instructions() {
        match site.opcode {
            Opcode::Ld if site.modifiers.has(Modifier::Global) => edit.after(&site, |k| {
                let address = site.address(k).unwrap();
                k.added(&trace).at(k.global_index()).store(address);
            }),
            Opcode::Shr => edit.replace(&site, |k| {
                let x = k.existing::<u32>("%r18");
                k.raw("mov.b32 {to}, {half};")
                    .input("to", k.existing::<u32>("%r16"))
                    .input("half", x / 2)
                    .emit();
            }),
            Opcode::Cvt => edit.remove(&site),
            Opcode::Shl => edit.replace_text(site.span, "mul.wide.u32 %rd8, %r1, 4;"),
            _ => {}
        }
    }
    // Names in added code are those of the new text.
    let error = edit.finish().unwrap_err();
    assert!(error.to_string().contains("`%r18`"), "{error}");

    let mut edit = Edit::new("collatz.ptx", COLLATZ).unwrap();
    edit.rename("steps", "collatz").unwrap();
    edit.rename_in("steps", "%p", "%is").unwrap();
    edit.rename_in("steps", "$L__BB0_3", "$loop").unwrap();
    edit.rename_in("steps", "steps_param_2", "n").unwrap();
    let trace = edit.param::<Ptr<u64, Global>>("steps", "trace").unwrap();
    edit.at_start("steps", |k| k.comment("Traced.")).unwrap();
    for site in edit.instructions() {
        match site.opcode {
            Opcode::Ld if site.modifiers.has(Modifier::Global) => edit.after(&site, |k| {
                let address = site.address(k).unwrap();
                k.added(&trace).at(k.global_index()).store(address);
            }),
            Opcode::Shr => edit.replace(&site, |k| {
                let half = k.existing::<u32>("%r18") / 2;
                k.raw("mov.b32 %r16, {half};").input("half", half).emit();
            }),
            Opcode::Cvt => edit.remove(&site),
            Opcode::Shl => edit.replace_text(site.span, "mul.wide.u32 %rd8, %r1, 4;"),
            _ => {}
        }
    }
    insta::assert_snapshot!("edited", edit.finish().unwrap().ptx.text());
}

#[test]
fn the_version_is_raised_where_added_code_needs_it() {
    let source = ".version 7.8\n.target sm_90\n.address_size 64 // bits\n.entry k\n{\n\tret;\n}\n";
    let mut edit = Edit::new("k.ptx", source).unwrap();
    let sum = edit.param::<Ptr<u32, Global>>("k", "sum").unwrap();
    edit.declarations().global_zeroed::<u32>("unused", 1);
    edit.at_start("k", |k| {
        let elected = k.raw("elect.sync _|{p}, -1;").output::<bool>("p");
        k.if_(elected, || k.added(&sum).reduce_add(1));
    })
    .unwrap();
    let edited = edit.finish().unwrap();
    let text = edited.ptx.text();
    assert!(
        text.starts_with(".version 8.0\n.target sm_90\n.address_size 64 // bits\n.visible"),
        "{text}"
    );
    assert!(
        text.contains(".entry k(.param .u64 .ptr .global .align 4 sum)\n{\n\t{\n\t\t.reg"),
        "{text}"
    );
    let ret = text.find("ret;").unwrap() as u32;
    assert_eq!(
        edited.origin(ret),
        Some(source.find("ret;").unwrap() as u32)
    );
    assert_eq!(edited.origin(ret - 4), None);
    // The target is not changed: the hardware is the user's.
    let mut edit = Edit::new("k.ptx", source).unwrap();
    edit.at_start("k", |k| k.raw("wgmma.fence.sync.aligned;").emit())
        .unwrap();
    let error = edit.finish().unwrap_err();
    assert!(error.to_string().contains("sm_90a"), "{error}");
}

#[test]
fn misuse_is_an_error() {
    let edit = || Edit::new("collatz.ptx", COLLATZ).unwrap();
    assert!(matches!(
        Edit::new("no.ptx", "no PTX"),
        Err(Error::Wrong(_))
    ));
    assert!(matches!(
        edit().rename("stairs", "x"),
        Err(Error::Missing { .. })
    ));
    assert!(matches!(
        edit().rename("steps", "%r18"),
        Err(Error::Taken { .. })
    ));
    assert!(matches!(
        edit().rename("steps", "a b"),
        Err(Error::Name { .. })
    ));
    assert!(matches!(
        edit().rename_in("steps", "%q", "%s"),
        Err(Error::Missing { .. })
    ));
    assert!(matches!(
        edit().param::<u32>("steps", "steps"),
        Err(Error::Taken { .. })
    ));
    assert!(matches!(
        edit().at_start("other", |_| {}),
        Err(Error::Missing { .. })
    ));

    let mut twice = edit();
    let site = &twice.instructions()[3];
    twice.remove(site);
    twice.replace(site, |k| k.barrier());
    let error = twice.finish().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`bar.sync 0;` replaces what another edit replaces: edit each part once"
    );

    let mut outside = edit();
    outside.replace_text(
        Span {
            start: 5,
            end: u32::MAX,
        },
        "x",
    );
    outside.replace_text(Span { start: 7, end: 6 }, "x");
    assert!(matches!(outside.finish(), Err(Error::Overlap { .. })));

    let mut wrong = edit();
    let site = &wrong.instructions()[3];
    wrong.before(site, |k| _ = k.existing::<u32>("%rd2").reverse_bits());
    assert!(matches!(wrong.finish(), Err(Error::Wrong(_))));

    let mut taken = edit();
    taken.declarations().global_zeroed::<u32>("steps", 1);
    assert!(matches!(taken.finish(), Err(Error::Taken { .. })));
}

/// `PTX=folder cargo test -p ptxkit-build -- --ignored`: each load of each module there is
/// counted, and the result checked.
#[test]
#[ignore = "needs a folder of PTX"]
fn every_load_of_a_folder_is_instrumented() {
    let folder = std::env::var("PTX").expect("PTX names a folder");
    let (mut modules, mut loads) = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let Ok(mut edit) = Edit::new("k.ptx", &source) else {
            println!("{} has errors", path.display());
            continue;
        };
        let counts = edit.declarations().global_zeroed::<u64>("ptxkit_loads", 1);
        for site in edit.instructions() {
            if site.opcode != Opcode::Ld || site.modifiers.has(Modifier::Param) {
                continue;
            }
            loads += 1;
            edit.before(&site, |k| match site.guard(k) {
                Some(guard) => k.if_(guard, || k.variable(&counts).reduce_add(1)),
                None => k.variable(&counts).reduce_add(1),
            });
        }
        let edited = edit
            .finish()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(kept(&edited, &source), source);
        if let Ok(to) = std::env::var("TO") {
            let to = std::path::Path::new(&to).join(path.file_name().unwrap());
            std::fs::write(to, edited.ptx.text()).unwrap();
        }
        modules += 1;
    }
    println!("{modules} modules, {loads} loads");
}

//! The kernel and the line of CUDA or Python that findings name, and the caches of Triton and numba.

use serde_json::json;

use super::*;

/// As Triton writes it: the second finding lies in a function of Triton's own that was inlined into
/// another one, and that into the kernel.
const TRITON: &str = "\
.version 8.0
.target sm_90
.address_size 64

.visible .entry add_kernel(.param .u64 p)
{
	.reg .b32 a, b;
	.loc 1 1 0
	.loc 1 12 7
	mov.u32 a, %tid.x;
	shl.b32 b, a, 40;
	.loc 2 290 36, function_name $L__info_string0, inlined_at 2 100 4
	.loc 2 100 4, function_name $L__info_string0, inlined_at 1 15 20
	.loc 2 290 36, function_name $L__info_string0, inlined_at 2 100 4
	shl.b32 a, a, 50;
	ret;
}
.file 1 \"/home/u/add.py\"
.file 2 \"/usr/lib/standard.py\"
.section .debug_str
{
$L__info_string0:
.b8 115, 117, 109, 0
}
";

const CUDA: &str = "\
.version 8.0
.target sm_90
.address_size 64

.visible .entry _Z5scaleIfEvPT_i(.param .u64 p, .param .u32 n)
{
	.reg .b32 a;
	mov.u32 a, %tid.x;
	shl.b32 a, a, 40;
	ret;
}
";

const SHIFTS: [&str; 2] = ["--select", "W0103"];

#[test]
fn the_cache_of_triton_is_a_folder_with_ptx() {
    let cache = ".triton/cache/QX5LZ5Y7MHVZ";
    let of = |name: &str| format!("{cache}/{name}");
    let folder = folder(&[
        (&of("add_kernel.ptx"), TRITON),
        (&of("add_kernel.ttir"), "module {}"),
        (&of("add_kernel.json"), "{}"),
        (&of("__grp__add_kernel.json"), "{}"),
        (&of("add_kernel.cubin"), "\u{7f}ELF, as it begins"),
    ]);
    let args = [
        &[".triton/cache", "--output-format", "concise"],
        &SHIFTS[..],
    ]
    .concat();
    let ran = ptxcheck(folder.path(), &args);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    let lines: Vec<&str> = ran.out.lines().collect();
    let said = |line: u32, bits: u32, origin: &str| {
        format!(
            "{cache}/add_kernel.ptx:{line}:16: warning[W0103]: a shift by {bits} of 32 bits [kernel \
             `add_kernel`, from {origin}]"
        )
    };
    assert_eq!(
        lines,
        [
            said(11, 40, "/home/u/add.py:12:7"),
            said(
                15,
                50,
                "/usr/lib/standard.py:290:36, inlined at /home/u/add.py:15:20"
            ),
        ]
    );
}

#[test]
fn every_format_names_the_kernel_and_the_line() {
    let ran = |source: &str, format: &str| {
        let args = [&["-", "--output-format", format], &SHIFTS[..]].concat();
        ptxcheck_on(source, &args).out
    };
    let full = ran(TRITON, "full");
    assert!(
        full.contains("   = note: in kernel `add_kernel`, from /home/u/add.py:12:7\n"),
        "{full}"
    );
    let github = ran(TRITON, "github");
    assert!(
        github.contains("%0Ain kernel `add_kernel`, from /home/u/add.py:12:7\n"),
        "{github}"
    );
    let found: serde_json::Value = serde_json::from_str(&ran(TRITON, "json")).unwrap();
    assert_eq!(found[0]["function"], "add_kernel");
    assert_eq!(found[0]["inlined_at"], json!(null));
    assert_eq!(
        (&found[1]["source"], &found[1]["inlined_at"]),
        (
            &json!({ "file": "/usr/lib/standard.py", "line": 290, "column": 36 }),
            &json!({ "file": "/home/u/add.py", "line": 15, "column": 20 })
        )
    );
    let log: serde_json::Value = serde_json::from_str(&ran(TRITON, "sarif")).unwrap();
    let result = &log["runs"][0]["results"][1];
    assert_eq!(
        result["locations"][0]["logicalLocations"][0]["name"],
        "add_kernel"
    );
    let related = result["relatedLocations"].as_array().unwrap();
    let places: Vec<_> = related
        .iter()
        .map(|place| {
            let place = &place["physicalLocation"];
            (&place["artifactLocation"]["uri"], &place["region"])
        })
        .collect();
    assert_eq!(
        places,
        [
            (
                &json!("file:///usr/lib/standard.py"),
                &json!({ "startLine": 290, "startColumn": 36 })
            ),
            (
                &json!("file:///home/u/add.py"),
                &json!({ "startLine": 15, "startColumn": 20 })
            ),
        ]
    );
}

#[test]
fn names_of_cuda_are_as_in_the_source() {
    let ran = ptxcheck_on(
        CUDA,
        &["-", "--select", "W0103", "--output-format", "concise"],
    );
    assert!(
        ran.out
            .ends_with(" [kernel `void scale<float>(float*, int)`]\n"),
        "{}",
        ran.out
    );
    let ran = ptxcheck_on(CUDA, &["-", "--select", "W0103", "--output-format", "json"]);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&found[0]["function"], &found[0]["demangled"]),
        (
            &json!("_Z5scaleIfEvPT_i"),
            &json!("void scale<float>(float*, int)")
        )
    );
}

/// numba's names have tags that tell one compilation from another, which nobody wrote.
#[test]
fn the_cache_of_numba_is_a_pickle_with_ptx() {
    let name = "_ZN8__main__5scaleB2v1B8cw51cXTLE5ArrayIfLi1E1C7mutable7alignedEx";
    let ptx = CUDA.replace("_Z5scaleIfEvPT_i", name);
    let mut body = vec![b'X'];
    body.extend((ptx.len() as u32).to_le_bytes());
    body.extend(ptx.as_bytes());
    body.push(b'.');
    let mut pickle = vec![0x80, 4, 0x95];
    pickle.extend((body.len() as u64).to_le_bytes());
    pickle.extend(body);
    let folder = folder(&[("__pycache__/other.nbc", "no pickle")]);
    std::fs::write(folder.path().join("__pycache__/k.nbc"), pickle).unwrap();
    let args = [
        "__pycache__",
        "--select",
        "W0103",
        "--output-format",
        "concise",
    ];
    let ran = ptxcheck(folder.path(), &args);
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    assert_eq!(
        ran.out,
        "__pycache__/k.nbc (image 0, PTX for sm_90):9:16: warning[W0103]: a shift by 40 of 32 bits \
         [kernel `__main__::scale(Array<float, 1, C, mutable, aligned>, long long)`]\n"
    );
}

#[test]
fn a_file_name_does_not_steer_the_terminal() {
    let source = TRITON.replace("/home/u/", "\u{1b}[31m");
    for format in ["full", "concise", "github"] {
        let args = [&["-", "--output-format", format], &SHIFTS[..]].concat();
        let ran = ptxcheck_on(&source, &args);
        assert!(ran.out.contains("u{1b}[31madd.py:12:7"), "{}", ran.out);
        assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    }
}

//! The PTX in programs, objects, archives and fatbins that nvcc made.

use super::*;

#[path = "../../../cli/tests/images/bomb.rs"]
mod bomb;

const CONTAINERS: [(&str, &[u8]); 4] = [
    (
        "kernels.fatbin",
        include_bytes!("../../../cli/tests/images/fixtures/kernels.fatbin"),
    ),
    (
        "library.so",
        include_bytes!("../../../cli/tests/images/fixtures/library.so"),
    ),
    (
        "relocatable.o",
        include_bytes!("../../../cli/tests/images/fixtures/relocatable.o"),
    ),
    (
        "archive.a",
        include_bytes!("../../../cli/tests/images/fixtures/archive.a"),
    ),
];

fn containers() -> tempfile::TempDir {
    let folder = folder(&[]);
    for (name, bytes) in CONTAINERS {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    folder
}

/// What stands at the place that a finding names, in the PTX that it names.
fn text_at(finding: &serde_json::Value) -> String {
    let name = finding["file"].as_str().unwrap();
    let (file, part) = name.split_once(" (").unwrap();
    let (_, bytes) = CONTAINERS.iter().find(|(known, _)| *known == file).unwrap();
    let text = image::ptx_texts(bytes)
        .unwrap()
        .map(Result::unwrap)
        .find(|found| format!("{})", found.origin) == *part)
        .unwrap()
        .text
        .into_owned();
    let number = |name: &str| finding[name].as_u64().unwrap() as usize;
    assert_eq!(finding["line"], finding["end_line"]);
    let line = text.lines().nth(number("line") - 1).unwrap();
    let there = &line[number("column") - 1..number("end_column") - 1];
    assert_eq!(there, &text[number("byte_start")..number("byte_end")]);
    there.to_owned()
}

#[test]
fn findings_name_the_image_and_the_line_in_it() {
    let folder = containers();
    let ran = ptxcheck(
        folder.path(),
        &[".", "--format", "json", "--select", "P0101,D0201"],
    );
    assert_eq!((ran.status, ran.err.as_str()), (Some(1), ""));
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let found: Vec<(&str, &str, String)> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap();
            (text("file"), text("code"), text_at(finding))
        })
        .collect();
    let in_image = |file, code, text: &str| (file, code, text.to_owned());
    let member = "archive.a (kernels_with_a_long_name.o, image 3, PTX for sm_100f)";
    let other = "archive.a (kernels.o, image 7, PTX for sm_100f)";
    let fatbin = "kernels.fatbin (image 3, PTX for sm_100f)";
    let library = "library.so (image 3, PTX for sm_100f)";
    let object = "relocatable.o (image 1, PTX for sm_80)";
    assert_eq!(
        found,
        [
            in_image(member, "D0201", "sm_100f"),
            in_image(member, "P0101", "__local_depot1"),
            in_image(other, "D0201", "sm_100f"),
            in_image(other, "P0101", "__local_depot1"),
            in_image(fatbin, "D0201", "sm_100f"),
            in_image(fatbin, "P0101", "__local_depot1"),
            in_image(library, "D0201", "sm_100f"),
            in_image(library, "P0101", "__local_depot1"),
            in_image(object, "P0101", "__local_depot1"),
        ]
    );
}

#[test]
fn lines_of_an_image_are_not_lines_of_the_file() {
    let folder = containers();
    let ran = ptxcheck(
        folder.path(),
        &["library.so", "--format", "github", "--select", "D0201"],
    );
    assert_eq!(
        ran.out,
        "::warning file=library.so,title=D0201::the module does not need `sm_100f`, with \
         which it runs only on that family of GPUs%0Awrite `sm_100`%0A\
         in library.so (image 3, PTX for sm_100f):10:9\n"
    );
    let ran = ptxcheck(
        folder.path(),
        &["library.so", "--format", "sarif", "--select", "D0201"],
    );
    let log: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(
        *place,
        serde_json::json!({ "artifactLocation": { "uri": "library.so" } })
    );
}

#[test]
fn binaries_are_not_mended() {
    let folder = containers();
    for args in [&["--fix"], &["--diff"]] {
        let args = [&["library.so", "--select", "D0201"], &args[..]].concat();
        let ran = ptxcheck(folder.path(), &args);
        assert_eq!(ran.status, Some(1), "{}", ran.err);
        let bytes = std::fs::read(folder.path().join("library.so")).unwrap();
        assert!(bytes == CONTAINERS[1].1);
    }
}

#[test]
fn what_unpacks_to_too_much_is_named_and_the_rest_is_checked() {
    let folder = folder(&[]);
    std::fs::write(folder.path().join("b.fatbin"), bomb::bomb(3, 30 << 20)).unwrap();
    let ran = ptxcheck(folder.path(), &["b.fatbin"]);
    assert_eq!(ran.status, Some(2));
    assert!(ran.err.contains("67108864 bytes in total"), "{}", ran.err);
    assert_eq!(ran.err.matches("error: ").count(), 1, "{}", ran.err);
}

//! The entries that CUDA's headers declare, in `entries.txt`: a name, and the CUDA versions that
//! brought its forms, up to CUDA 13.5. The table and the documentation are compared with them,
//! and with what libraries of NVIDIA's older drivers export (`exports.txt`). Such drivers, which
//! have the entries of their time alone, are played by libraries of a few lines of C.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};

use ptxkit::driver::api::Api;
use ptxkit::driver::{Context, Driver, EntryMissing, Error};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::missing::with_driver;
use crate::support::{device, in_child, isolated};

/// Names, and the versions of their forms.
fn header() -> BTreeMap<&'static str, Vec<i32>> {
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        (name, words.map(|word| word.parse().unwrap()).collect())
    };
    include_str!("entries.txt").lines().map(line).collect()
}

/// What a library exports a form as: the second of `cuMemAlloc` is `cuMemAlloc_v2`.
fn exported(name: &str, form: usize) -> String {
    match form {
        0 => name.to_owned(),
        _ => format!("{name}_v{}", form + 1),
    }
}

/// CUDA versions of the drivers whose exports are recorded.
const RECORDED: [i32; 4] = [11040, 12000, 12020, 12040];

/// What their libraries export, and the first of these versions that does.
fn recorded() -> BTreeMap<&'static str, i32> {
    let line = |line: &'static str| {
        let (name, version) = line.split_once(' ').unwrap();
        (name, version.parse().unwrap())
    };
    include_str!("exports.txt").lines().map(line).collect()
}

/// Whether a driver has a form: as recorded, or of other versions as the header says.
fn has(version: i32, symbol: &str, since: i32, recorded: &BTreeMap<&str, i32>) -> bool {
    if RECORDED.contains(&version) {
        recorded.get(symbol).is_some_and(|first| *first <= version)
    } else {
        since <= version
    }
}

/// The header names for each form the version that brought it, and drivers keep all that they had.
#[test]
fn drivers_export_what_the_header_says() {
    // For Windows, and in no driver of Linux.
    const ELSEWHERE: [&str; 2] = ["cuEventCreateFromEGLSync", "cuWGLGetDevice"];
    // In no header any more.
    const FORMER: [&str; 3] = ["cuEGLApiInit", "cuMemGetAttribute", "cuMemGetAttribute_v2"];
    let mut said = BTreeMap::new();
    for (name, versions) in header() {
        for (form, since) in versions.into_iter().enumerate() {
            let first = RECORDED.into_iter().find(|version| since <= *version);
            said.extend(first.map(|first| (exported(name, form), first)));
        }
    }
    said.retain(|name, _| !ELSEWHERE.contains(&name.as_str()));
    let recorded = recorded().into_iter();
    let found: BTreeMap<_, _> = recorded
        .filter(|(name, _)| !FORMER.contains(name))
        .map(|(name, first)| (name.to_owned(), first))
        .collect();
    assert!(found.len() > 500);
    assert_eq!(found, said);
}

/// `scripts/older-drivers` names libraries of NVIDIA's. Without a GPU they do not start, and yet
/// say which entries they have.
#[test]
fn the_table_is_filled_from_libraries_of_older_drivers() {
    let name = "header::the_table_is_filled_from_libraries_of_older_drivers";
    let test = || {
        let api = Api::nvidia().unwrap();
        let version = api.version();
        assert!(RECORDED.contains(&version), "{version}");
        for (name, is_there, since) in api.entries() {
            assert_eq!(is_there, since <= version && since > 0, "{name} {since}");
        }
        if let Err(error) = Driver::nvidia() {
            let error = error.to_string();
            assert!(error.contains("CUDA_ERROR_NO_DEVICE"), "{error}");
        }
    };
    if in_child(name) {
        return test();
    }
    let Ok(libraries) = std::env::var("PTXKIT_OLDER_DRIVERS") else {
        return eprintln!("left out: scripts/older-drivers has the libraries");
    };
    for library in libraries.split(':') {
        isolated(name, &[("PTXKIT_LIBCUDA", library)], test);
    }
}

/// The rows of the table: base name, and versions.
fn rows() -> BTreeMap<String, Vec<i32>> {
    let mut rows = BTreeMap::<String, Vec<i32>>::new();
    let header = header();
    for (entry, _, since) in device().driver().api().entries() {
        let found = header.iter().find_map(|(name, versions)| {
            let form = versions.iter().position(|&version| version == since)?;
            (exported(name, form) == entry).then(|| (*name).to_owned())
        });
        rows.entry(found.unwrap_or_else(|| entry.to_owned()))
            .or_default()
            .push(since);
    }
    rows
}

#[test]
fn each_row_is_a_form_that_the_header_has() {
    let header = header();
    for (name, versions) in rows() {
        if name == "ptxkitGetLastFault" {
            continue; // the CPU device's own
        }
        let known = header.get(name.as_str());
        let known = known.unwrap_or_else(|| panic!("{name} {versions:?} is in no header"));
        assert!(versions.iter().all(|version| known.contains(version)));
    }
}

/// Whether a word in a page, as `cuMulticast*`, stands for a name.
fn stands_for(word: &str, name: &str) -> bool {
    let mut parts = word.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty() || word.ends_with('*')
}

#[test]
fn the_page_has_each_entry_of_the_header() {
    let page = include_str!("../../docs/driver-api.md");
    let words: Vec<_> = page.split('`').skip(1).step_by(2).collect();
    let rows = rows();
    for (name, versions) in header() {
        let newest = *versions.last().unwrap();
        let has_row = rows.get(name).is_some_and(|rows| rows.contains(&newest));
        let last = exported(name, versions.len() - 1);
        let is_told = || {
            words
                .iter()
                .any(|word| stands_for(word, name) && !rows.contains_key(name))
                || words.iter().any(|word| stands_for(word, &last))
        };
        assert!(
            has_row || is_told(),
            "docs/driver-api.md says nothing of {last}"
        );
    }
    assert!(stands_for("cuGL*BufferObject*", "cuGLMapBufferObjectAsync"));
    assert!(!stands_for("cuGL*Buffer", "cuGLMapBufferObject"));
}

/// A driver of a CUDA version: it starts, has one device, and does nothing else.
fn of_version(version: i32) -> String {
    let mut source = String::from(
        "#include <string.h>
         static int nothing(void) { return 801; }
         int cuInit(unsigned flags) { return 0; }
         int cuDeviceGetCount(int *count) { *count = 1; return 0; }
         int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
         int cuDeviceGetName(char *name, int length, int device) { strcpy(name, \"stub\"); return 0; }
         int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = 8; return 0; }
         int cuDeviceTotalMem_v2(unsigned long *bytes, int device) { *bytes = 1; return 0; }\n",
    );
    let written = [
        "cuInit",
        "cuDeviceGetCount",
        "cuDeviceGet",
        "cuDeviceGetName",
        "cuDeviceGetAttribute",
        "cuDeviceTotalMem_v2",
        "cuDriverGetVersion",
        "cuGetProcAddress_v2",
    ];
    writeln!(
        source,
        "int cuDriverGetVersion(int *version) {{ *version = {version}; return 0; }}"
    )
    .unwrap();
    let (mut known, recorded) = (String::new(), recorded());
    for (name, versions) in header() {
        for (form, since) in versions.iter().enumerate() {
            let symbol = exported(name, form);
            if !has(version, &symbol, *since, &recorded) {
                continue;
            }
            if !written.contains(&symbol.as_str()) {
                writeln!(source, "int {symbol}(void) {{ return 801; }}").unwrap();
            }
            if symbol != "cuGetProcAddress_v2" {
                writeln!(known, "{{\"{name}\", {since}, (void *){symbol}}},").unwrap();
            }
        }
    }
    if version >= 12000 {
        // The newest form that is no newer than what was asked for.
        write!(
            source,
            "static const struct {{ const char *name; int since; void *address; }} known[] = {{
             {known} {{0, 0, (void *)nothing}} }};
             int cuGetProcAddress_v2(const char *name, void **address, int version,
                                     unsigned long flags, int *status) {{
                 *address = 0;
                 for (int i = 0; known[i].name; i++)
                     if (!strcmp(known[i].name, name) && known[i].since <= version)
                         *address = known[i].address;
                 *status = !*address;
                 return *address ? 0 : 500;
             }}"
        )
        .unwrap();
    }
    source
}

/// The messages of events.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl Subscriber for Messages {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ptxkit")
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Fields(String);
        impl Visit for Fields {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                write!(self.0, "{field}={value:?} ").unwrap();
            }
        }
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        self.0.lock().unwrap().push(fields.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn starts_on(version: i32, lacks: &[&'static str], has: &[&str]) {
    let messages = Messages::default();
    let driver = tracing::subscriber::with_default(messages.clone(), || {
        Driver::nvidia().unwrap();
        Driver::nvidia().unwrap()
    });
    assert_eq!(driver.version(), version);
    // Neither more nor less than what came later is missing.
    for (name, is_there, since) in Api::nvidia().unwrap().entries() {
        assert_eq!(is_there, since <= version && since > 0, "{name} {since}");
    }
    let told = messages.0.lock().unwrap().join("\n");
    assert_eq!(told.matches("lacks entries").count(), 1, "{told}");

    let report = driver.report().unwrap();
    assert_eq!(report.devices[0].name, "stub");
    let missing: Vec<_> = report.missing.iter().map(|entry| entry.name).collect();
    for name in lacks {
        assert!(missing.contains(name), "{name}: {missing:?}");
    }
    for name in has {
        assert!(!missing.contains(name), "{name}");
    }
    // What is there is called, and what is not is an error that says so.
    let device = driver.device(0).unwrap();
    assert_eq!(
        Context::primary(&device)
            .unwrap_err()
            .code()
            .map(|code| code.0),
        Some(801)
    );
    let error = driver.log().unwrap_err();
    assert!(
        matches!(
            &error,
            Error::EntryMissing(EntryMissing {
                entry: "cuLogsCurrent",
                ..
            })
        ),
        "{error}"
    );
    assert!(error.to_string().contains("CUDA 12.9"), "{error}");
}

#[test]
fn starts_on_a_driver_of_cuda_11_4() {
    let name = "header::starts_on_a_driver_of_cuda_11_4";
    with_driver(name, &of_version(11040), || {
        let lacks = [
            "cuLaunchKernelEx",
            "cuLibraryLoadData",
            "cuStreamWriteValue32_v2",
        ];
        starts_on(
            11040,
            &lacks,
            &["cuMemAllocAsync", "cuGraphAddMemAllocNode"],
        );
    });
}

#[test]
fn starts_on_a_driver_of_cuda_12_0() {
    let name = "header::starts_on_a_driver_of_cuda_12_0";
    with_driver(name, &of_version(12000), || {
        let lacks = ["cuMemAdvise_v2", "cuGraphAddNode", "cuGreenCtxCreate"];
        starts_on(12000, &lacks, &["cuLaunchKernelEx", "cuLibraryLoadData"]);
    });
}

#[test]
fn starts_on_a_driver_of_cuda_12_8() {
    let name = "header::starts_on_a_driver_of_cuda_12_8";
    with_driver(name, &of_version(12080), || {
        let lacks = ["cuMemcpyBatchAsync_v2", "cuMemPrefetchBatchAsync"];
        starts_on(12080, &lacks, &["cuMemcpyBatchAsync", "cuGreenCtxCreate"]);
    });
}

//! Generates a function for each name that NVIDIA's driver exports: a jump through a table. The library's name
//! for linkers and loaders is the driver's.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::{env, fs};

/// The names of NVIDIA's driver 580 (CUDA 13.0).
const NAMES: &str = "names.txt";
/// The names that the library implements itself, by module.
const OWN: &[(&str, &[&str])] = &[
    ("procedure", &["cuGetProcAddress", "cuGetProcAddress_v2"]),
    (
        "loads",
        &[
            "cuLibraryLoadData",
            "cuLibraryLoadFromFile",
            "cuModuleLoad",
            "cuModuleLoadData",
            "cuModuleLoadDataEx",
            "cuModuleLoadFatBinary",
        ],
    ),
    (
        "links",
        &[
            "cuLinkAddData",
            "cuLinkAddData_v2",
            "cuLinkAddFile",
            "cuLinkAddFile_v2",
            "cuLinkComplete",
            "cuLinkCreate",
            "cuLinkCreate_v2",
            "cuLinkDestroy",
        ],
    ),
    (
        "sliced::libraries",
        &[
            "cuKernelGetFunction",
            "cuKernelGetLibrary",
            "cuLibraryEnumerateKernels",
            "cuLibraryGetGlobal",
            "cuLibraryGetKernel",
            "cuLibraryGetKernelCount",
            "cuLibraryGetManaged",
            "cuLibraryGetModule",
            "cuLibraryGetUnifiedFunction",
            "cuLibraryUnload",
        ],
    ),
    (
        "sliced::modules",
        &[
            "cuFuncGetModule",
            "cuModuleEnumerateFunctions",
            "cuModuleGetFunction",
            "cuModuleGetFunctionCount",
            "cuModuleGetGlobal",
            "cuModuleGetGlobal_v2",
            "cuModuleGetSurfRef",
            "cuModuleGetTexRef",
            "cuModuleUnload",
        ],
    ),
    (
        "sliced::primary",
        &["cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"],
    ),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={NAMES}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    let names = fs::read_to_string(NAMES).expect("names.txt is part of the package");
    let names: Vec<&str> = names.lines().collect();
    let mut text = format!("pub const NAMES: [&str; {}] = {names:?};\n", names.len());
    let mut own = String::new();
    for (number, name) in names.iter().enumerate() {
        if let Some((module, _)) = OWN.iter().find(|(_, of_module)| of_module.contains(name)) {
            let _ = writeln!(text, "pub const {}: usize = {number};", name.to_uppercase());
            let _ = writeln!(
                own,
                "    ({number}, crate::{module}::{name} as *mut c_void),"
            );
        } else {
            let _ = writeln!(text, "forward!({name} = {number});");
        }
    }
    let count = own.lines().count();
    let _ = writeln!(
        text,
        "/// The functions of this library, by the place of the driver's function in the table.\n\
         pub fn own() -> [(usize, *mut c_void); {count}] {{\n    [\n{own}    ]\n}}"
    );
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(folder.join("names.rs"), text).expect("the folder can be written");
}

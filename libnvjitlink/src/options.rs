//! The options of a session.

use crate::session::Refusal;

const UNRECOGNIZED_OPTION: i32 = 1;
const MISSING_ARCH: i32 = 2;
const INCOMPATIBLE_OPTIONS: i32 = 11;

/// What a session was asked for.
pub(crate) struct Options {
    /// As they were given, for NVIDIA's library.
    pub(crate) given: Vec<String>,
    /// `sm_90`, of `-arch=sm_90`.
    pub(crate) arch: String,
    /// `-lto`: inputs may be LTO-IR.
    pub(crate) lto: bool,
    /// `-ptx`: PTX is asked for, not a binary.
    pub(crate) ptx: bool,
    /// `-verbose`
    pub(crate) verbose: bool,
}

/// Options that have no value, and those that have one. All but the fields of [`Options`]
/// concern NVIDIA's optimizer and assembler, and mean nothing for the CPU device.
const PLAIN: &[&str] = &[
    "-lto",
    "-ptx",
    "-verbose",
    "-v",
    "-time",
    "-g",
    "-lineinfo",
    "-optimize-unused-variables",
    "-optimize-unused-variable",
    "-no-cache",
    "-device-stack-protector",
    "-jump-table-density",
    "-minimal",
    "-suppress-arch-warning",
    "-suppress-debug-info",
];
const WITH_VALUE: &[&str] = &[
    "-arch",
    "-maxrregcount",
    "-ftz",
    "-prec-div",
    "-prec-sqrt",
    "-fma",
    "-kernels-used",
    "-variables-used",
    "-Xptxas",
    "-Xnvvm",
    "-split-compile",
    "-split-compile-extended",
    "-jump-table-density",
    "-time",
    "-device-stack-protector",
    "-host-ref-ek",
    "-host-ref-ik",
    "-host-ref-ec",
    "-host-ref-ic",
    "-host-ref-eg",
    "-host-ref-ig",
];

impl Options {
    pub(crate) fn read(given: Vec<String>) -> Result<Options, Refusal> {
        let mut options = Options {
            given: Vec::new(),
            arch: String::new(),
            lto: false,
            ptx: false,
            verbose: false,
        };
        for option in &given {
            let option = option.trim();
            let known = match option.split_once('=') {
                Some((name, _)) => WITH_VALUE.contains(&name),
                None => PLAIN.contains(&option) || matches!(option, "-O0" | "-O1" | "-O2" | "-O3"),
            };
            if !known {
                return Err(unrecognized(option));
            }
            match option {
                "-lto" => options.lto = true,
                "-ptx" => options.ptx = true,
                "-verbose" | "-v" => options.verbose = true,
                _ => {}
            }
            if let Some(arch) = option.strip_prefix("-arch=") {
                if !is_arch(arch) {
                    return Err(unrecognized(option));
                }
                arch.clone_into(&mut options.arch);
            }
        }
        if options.arch.is_empty() {
            return Err(Refusal::new(MISSING_ARCH, "-arch=sm_NN is not given"));
        }
        if options.ptx && !options.lto {
            return Err(Refusal::new(INCOMPATIBLE_OPTIONS, "-ptx needs -lto"));
        }
        options.given = given;
        Ok(options)
    }
}

fn unrecognized(option: &str) -> Refusal {
    Refusal::new(UNRECOGNIZED_OPTION, format!("unknown option {option}"))
}

/// `sm_90`, `sm_90a`, `sm_100f`, `compute_90`
fn is_arch(arch: &str) -> bool {
    let number = arch
        .strip_prefix("sm_")
        .or_else(|| arch.strip_prefix("compute_"));
    let digits = number.map(|number| number.strip_suffix(['a', 'f']).unwrap_or(number));
    digits
        .is_some_and(|digits| digits.len() > 1 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: &[&str]) -> Result<Options, i32> {
        let given = options.iter().map(|option| (*option).to_owned()).collect();
        Options::read(given).map_err(|refusal| refusal.code)
    }

    #[test]
    fn options_are_nvidias() {
        let options = read(&["-arch=sm_90a", "-lto", "-ptx", "-O3", "-maxrregcount=32"]).unwrap();
        assert_eq!(
            (&*options.arch, options.lto, options.ptx),
            ("sm_90a", true, true)
        );
        assert_eq!(options.given.len(), 5);
    }

    #[test]
    fn what_is_unknown_or_missing_has_nvidias_code() {
        let code = |options| read(options).err();
        assert_eq!(
            code(&["-arch=sm_90", "-fictitious"]),
            Some(UNRECOGNIZED_OPTION)
        );
        assert_eq!(code(&["-arch=sm_XX"]), Some(UNRECOGNIZED_OPTION));
        assert_eq!(code(&["-arch=99"]), Some(UNRECOGNIZED_OPTION));
        assert_eq!(code(&["-O9", "-arch=sm_90"]), Some(UNRECOGNIZED_OPTION));
        assert_eq!(code(&["-O3"]), Some(MISSING_ARCH));
        assert_eq!(code(&["-arch=sm_90", "-ptx"]), Some(INCOMPATIBLE_OPTIONS));
    }
}

//! Files with a fatbin in them: C and Rust source, and ELF objects.

use std::fmt::Write;
use std::path::Path;

use object::write::{Object, StandardSection, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};
use ptxkit::image::Entry;
use terminal::failure::Failure;

/// The section in which NVIDIA's tools, and `ptxkit extract`, find fatbins.
const SECTION: &str = ".nv_fatbin";
/// How fatbins are aligned.
const ALIGNMENT: u64 = 8;
/// Numbers on one line of source.
const BYTES_PER_LINE: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Embed {
    /// A C or C++ source file with NAME and NAME_size
    C,
    /// An ELF object file for this machine with NAME and NAME_size
    Object,
    /// A Rust source file with NAME, a &[u8]
    Rust,
}

impl Embed {
    /// Returns the variable's name: the user's choice, or a name derived from the output file.
    ///
    /// # Errors
    /// The user's is not an identifier.
    pub fn symbol(self, name: Option<&str>, output: &Path) -> Result<String, Failure> {
        let is_identifier = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
        };
        if let Some(name) = name {
            return if is_identifier(name) {
                Ok(name.to_owned())
            } else {
                Err(
                    Failure::new(format!("--symbol: `{name}` is not an identifier"))
                        .help("use letters, digits and underscores, and a letter first"),
                )
            };
        }
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let mut name: String = stem
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        if !is_identifier(&name) {
            name.insert(0, '_');
        }
        if self == Embed::Rust {
            name.make_ascii_uppercase();
        }
        Ok(match name.as_str() {
            "_" | "__" => "fatbin".to_owned(),
            _ => name,
        })
    }

    /// The content of the file.
    ///
    /// # Errors
    /// This machine is neither x86-64 nor AArch64, for which objects are written.
    pub fn file(
        self,
        symbol: &str,
        fatbin: &[u8],
        entries: &[Entry<'_>],
    ) -> Result<Vec<u8>, Failure> {
        let images: Vec<String> = entries
            .iter()
            .map(|entry| format!("{} for {}", entry.kind.word(), entry.target))
            .collect();
        let images = images.join(", ");
        match self {
            Embed::C => Ok(c(symbol, fatbin, &images).into_bytes()),
            Embed::Rust => Ok(rust(symbol, fatbin, &images).into_bytes()),
            Embed::Object => object(symbol, fatbin),
        }
    }
}

fn c(symbol: &str, fatbin: &[u8], images: &str) -> String {
    let size = fatbin.len();
    let mut text = format!(
        "/* Written by ptxkit pack: {images}.\n   \
         cuModuleLoadData(&module, {symbol}) and cuLibraryLoadData load it. */\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\
         extern const unsigned char {symbol}[{size}];\n\
         extern const unsigned long long {symbol}_size;\n\n\
         const unsigned long long {symbol}_size = {size};\n\
         #if defined(__ELF__)\n\
         __attribute__((section(\"{SECTION}\"), aligned({ALIGNMENT})))\n\
         #elif defined(_MSC_VER)\n\
         __declspec(align({ALIGNMENT}))\n\
         #endif\n\
         const unsigned char {symbol}[{size}] = {{\n"
    );
    for line in fatbin.chunks(BYTES_PER_LINE) {
        for byte in line {
            let _ = write!(text, "{byte},");
        }
        text.push('\n');
    }
    text += "};\n#ifdef __cplusplus\n}\n#endif\n";
    text
}

fn rust(symbol: &str, fatbin: &[u8], images: &str) -> String {
    let size = fatbin.len();
    let mut text = format!(
        "// Written by ptxkit pack.\n\n\
         /// A fatbin: {images}.\n\
         pub static {symbol}: &[u8] = {{\n    \
         #[repr(C, align({ALIGNMENT}))]\n    \
         struct Aligned([u8; {size}]);\n    \
         static FATBIN: Aligned = Aligned(*b\"\\\n"
    );
    for line in fatbin.chunks(BYTES_PER_LINE) {
        for byte in line {
            if byte.is_ascii_alphanumeric() {
                text.push(char::from(*byte));
            } else {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        text += "\\\n";
    }
    text += "\");\n    &FATBIN.0\n};\n";
    text
}

fn object(symbol: &str, fatbin: &[u8]) -> Result<Vec<u8>, Failure> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => Architecture::X86_64,
        "aarch64" => Architecture::Aarch64,
        other => {
            return Err(Failure::new(format!(
                "--embed object writes objects for x86-64 and AArch64, and this machine is {other}"
            ))
            .help("compile the output of --embed c"));
        }
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let section = object.add_section(Vec::new(), SECTION.into(), SectionKind::ReadOnlyData);
    let sizes = object.section_id(StandardSection::ReadOnlyData);
    for (name, section, data) in [
        (symbol.to_owned(), section, fatbin),
        (
            format!("{symbol}_size"),
            sizes,
            &(fatbin.len() as u64).to_le_bytes(),
        ),
    ] {
        let id = object.add_symbol(Symbol {
            name: name.into_bytes(),
            value: 0,
            size: 0,
            kind: SymbolKind::Data,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Undefined,
            flags: SymbolFlags::None,
        });
        object.add_symbol_data(id, section, data, ALIGNMENT);
    }
    // Without it, linkers assume that the object needs an executable stack.
    object.add_section(Vec::new(), ".note.GNU-stack".into(), SectionKind::Other);
    object
        .write()
        .map_err(|error| Failure::new(format!("the object cannot be written: {error}")))
}

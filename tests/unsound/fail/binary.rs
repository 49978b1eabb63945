//! Binaries: machine code of the process, or of a device that nobody checks.
use std::path::Path;

use ptxkit::cache::Digest;
use ptxkit::driver::nvjitlink::NvJitLink;
use ptxkit::driver::nvptxcompiler::NvPtxCompiler;
use ptxkit::driver::{Context, Library, LinkInput, Module};
use ptxkit::loader::Source;

fn loads(context: &Context, binary: &[u8]) {
    let _ = Module::load_image(context, binary); //~ E0133
    let _ = Module::load_with(context, binary, Vec::new()); //~ E0133
    let _ = Module::load_resolving(context, binary, &[]); //~ E0133
    let _ = Library::load_image(context, binary); //~ E0133
    let _ = Source::image("binary", binary); //~ E0133
    let _ = Source::new("ptx", b"").with_digest(Digest::of(b"other PTX")); //~ E0133
}

fn links(binary: &[u8]) {
    let _ = LinkInput::cubin("binary", binary); //~ E0133
    let _ = LinkInput::fatbin("binary", binary); //~ E0133
    let _ = LinkInput::object("binary", binary); //~ E0133
    let _ = LinkInput::library("binary", binary); //~ E0133
    let _ = LinkInput::lto("binary", binary); //~ E0133
    let _ = NvJitLink::open_in(Path::new("/tmp")); //~ E0133
    let _ = NvPtxCompiler::open_file(Path::new("/tmp/a.so")); //~ E0133
}

fn main() {}

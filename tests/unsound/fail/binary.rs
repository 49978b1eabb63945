//! Binaries: machine code of the process, or of a device that nobody checks.
use std::path::Path;

use ptxkit::cache::Digest;
use ptxkit::driver::nvjitlink::NvJitLink;
use ptxkit::driver::{Context, Library, LinkInput, Module};
use ptxkit::loader::Source;

fn loads(context: &Context, binary: &[u8]) {
    let _ = Module::load_image(context, binary);
    let _ = Module::load_with(context, binary, Vec::new());
    let _ = Module::load_resolving(context, binary, &[]);
    let _ = Library::load_image(context, binary);
    let _ = Source::image("binary", binary);
    let _ = Source::new("ptx", b"").with_digest(Digest::of(b"other PTX"));
}

fn links(binary: &[u8]) {
    let _ = LinkInput::cubin("binary", binary);
    let _ = LinkInput::fatbin("binary", binary);
    let _ = LinkInput::object("binary", binary);
    let _ = LinkInput::library("binary", binary);
    let _ = LinkInput::lto("binary", binary);
    let _ = NvJitLink::open_in(Path::new("/tmp"));
}

fn main() {}

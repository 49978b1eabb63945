//! The message of each error.

use std::fmt;

use super::Error;
use input::ShowName as _;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::DriverMissing(error) => error.fmt(f),
            Error::EntryMissing(error) => error.fmt(f),
            Error::Driver(error) => error.fmt(f),
            Error::Jit(error) => error.fmt(f),
            Error::NvPtxCompiler(error) => error.fmt(f),
            Error::TensorMap(error) => error.fmt(f),
            Error::NoSuchDevice {
                driver,
                asked,
                count,
            } => write!(
                f,
                "there is no device {asked} on the {driver}: it has {count}, counted from 0{}",
                hidden()
            ),
            Error::UnknownDevice { driver, asked } => write!(
                f,
                "no device of the {driver} has the {asked}: see `ptxkit devices`, and \
                 CUDA_VISIBLE_DEVICES"
            ),
            Error::BadSelection(word) => write!(
                f,
                "`{word}` names no device: use auto, nvidia, nvidia:N or cpu"
            ),
            Error::BadImage(why) => write!(f, "the image cannot be loaded: {why}"),
            Error::Binary => f.write_str(
                "the image is a binary, and this loads PTX: a binary that is trusted is loaded by \
                 `load_image`, which is `unsafe`",
            ),
            Error::SymbolsInPtx => f.write_str(
                "this driver gives addresses to variables of compiled code, not of PTX: compile \
                 it with `ptxas -c` or `nvcc -dc -cubin`, or define the variables in PTX and link \
                 the two",
            ),
            Error::File { path, source } => {
                write!(f, "{} cannot be read: {source}", path.shown())
            }
            Error::UnknownKernel { name, known } => write!(
                f,
                "there is no kernel `{name}` in the module{}",
                listing("it has", known)
            ),
            Error::UnknownGlobal { name } => {
                write!(f, "there is no variable `{name}` in the module")
            }
            Error::UnknownReference { name } => write!(
                f,
                "there is no texture or surface reference `{name}` in the module"
            ),
            Error::ArgumentCount {
                kernel,
                expected,
                given,
            } => write!(
                f,
                "kernel `{kernel}` takes {expected} argument{}, {given} given",
                if *expected == 1 { "" } else { "s" }
            ),
            Error::ArgumentSize {
                kernel,
                index,
                expected,
                given,
                declaration,
            } => write!(
                f,
                "argument {index} of kernel `{kernel}`: {expected} bytes expected{}, {given} given",
                declared(declaration)
            ),
            Error::ArgumentOffset {
                kernel,
                index,
                expected,
                given,
                declaration,
            } => write!(
                f,
                "argument {index} of kernel `{kernel}` stands at byte {given} of the parameter \
                 buffer, expected at {expected}{}: its alignment is another",
                declared(declaration)
            ),
            Error::ArgumentAlignment {
                kernel,
                index,
                offset,
                given,
                declaration,
            } => write!(
                f,
                "argument {index} of kernel `{kernel}` is aligned to {given} bytes, and its \
                 parameter stands at byte {offset}{}: it is another type",
                declared(declaration)
            ),
            Error::AddressAlignment {
                kernel,
                index,
                address,
                align,
                declaration,
            } => write!(
                f,
                "argument {index} of kernel `{kernel}` is memory at {address:#x}, and the kernel \
                 takes addresses that are multiples of {align}{}: pass a part that begins at one",
                declared(declaration)
            ),
            Error::ArgumentContext { kernel, index } => write!(
                f,
                "argument {index} of kernel `{kernel}` lives in another context than the kernel: \
                 on another device, peer access makes it good (`Context::enable_peer`)"
            ),
            Error::ParameterBytes {
                kernel,
                expected,
                given,
            } => write!(
                f,
                "kernel `{kernel}` takes {expected} bytes of parameters, the buffer has {given}"
            ),
            Error::BlockTooLarge {
                kernel,
                block,
                limit,
            } => write!(
                f,
                "a block of {} threads is over the limit of kernel `{kernel}`, {limit} threads: \
                 launch smaller blocks",
                shape(block)
            ),
            Error::RequiredBlock {
                kernel,
                required,
                given,
            } => write!(
                f,
                "kernel `{kernel}` runs with blocks of {} only, {} given",
                shape(required),
                shape(given)
            ),
            Error::Dimension {
                kernel,
                what,
                axis,
                given,
                limit,
            } => write!(
                f,
                "{what}.{} = {given} of kernel `{kernel}` is not in 1..={limit}",
                direction(*axis)
            ),
            Error::Cluster {
                kernel,
                grid,
                cluster,
            } => write!(
                f,
                "the grid of kernel `{kernel}`, {}, is no multiple of its cluster, {}",
                shape(grid),
                shape(cluster)
            ),
            Error::SharedMemory {
                kernel,
                fixed,
                dynamic,
                limit,
            } => write!(
                f,
                "kernel `{kernel}` has {fixed} bytes of shared memory and asks for {dynamic} \
                 more: a block on this device can have {limit}"
            ),
            Error::Length {
                what,
                given,
                capacity,
            } => write!(f, "{what}: {given} given, room for {capacity}"),
            Error::Cast {
                address,
                bytes,
                size,
                align,
            } => write!(
                f,
                "{bytes} bytes at address {address:#x} are not values of {size} bytes, aligned \
                 to {align}"
            ),
            Error::ArrayBox {
                what,
                axis,
                start,
                end,
                capacity,
            } => write!(
                f,
                "{what}: {start}..{end} along {}, the array has {capacity}",
                direction(*axis)
            ),
            Error::ArrayFormat {
                expected,
                found,
                channels,
            } => write!(
                f,
                "the array has {channels} channel{} of {}, {} of {:?} expected",
                if *channels == 1 { "" } else { "s" },
                found.map_or("a format unknown here".to_owned(), |format| format!(
                    "{format:?}"
                )),
                expected.1,
                expected.0
            ),
            Error::IntegerFilter { format } => write!(
                f,
                "{format:?} texels that are read as integers cannot be filtered: use \
                 FilterMode::Point, or read integers of 8 or 16 bits as fractions"
            ),
            Error::NotForSurfaces => f.write_str(
                "the array was made without ArrayFlags::surface: no surface can be made of it",
            ),
            Error::NotAnArray => {
                f.write_str("only arrays have views: this texture is one of linear memory")
            }
            Error::MipmapLevel {
                what,
                given,
                levels,
            } => write!(f, "{what}: {given} given, there are {levels} at most"),
            Error::Checked { what, source } => write!(f, "{what} failed: {source}"),
            Error::CapturedOnce => f.write_str(
                "a function that is called once cannot be captured in a graph: use \
                 `Stream::call_each_launch`",
            ),
            Error::Region {
                what,
                axis,
                start,
                end,
                capacity,
            } => write!(
                f,
                "{what}: {start}..{end} along {}, the memory has {capacity}",
                direction(*axis)
            ),
            Error::Pageable => f.write_str(
                "this takes memory of the driver's: pin the program's own (`PinnedBuffer`)",
            ),
            Error::CapturedInto => f.write_str(
                "a stream is being captured into the graph: use the graph when the capture has \
                 ended",
            ),
            Error::Captured { what } => write!(f, "{what} cannot be captured in a graph"),
            Error::Ended => f.write_str(
                "the memory went back to its owner, or the values were moved out of their buffer",
            ),
            Error::Aliases { written, other } => write!(
                f,
                "parameter {other} of the kernel is memory that it writes by parameter {written}: \
                 pass memory that no other parameter has"
            ),
            Error::Mapped => f.write_str(
                "the memory is mapped already: drop that mapping first, or use \
                 `AddressRange::map_alias` or `Memory::buffer_alias`",
            ),
            Error::Bool { index, byte } => {
                write!(f, "value {index} is {byte}, and a `bool` is 0 or 1")
            }
            Error::HostSlice => f.write_str(
                "the program has a slice of the pinned memory, or the memory is borrowed: drop \
                 the slice before work that uses the memory is queued, and take none of borrowed \
                 memory",
            ),
            Error::NotGreen => {
                f.write_str("the context is not a green one: make it by Context::green")
            }
            Error::DifferentDevices { what } => write!(f, "{what} are of different devices"),
            Error::GraphNode => f.write_str("the node is not of this graph"),
            Error::GraphMemory => f.write_str(
                "memory that a graph allocates is there for the nodes alone that \
                 `Graph::add_memory` adds with it",
            ),
            Error::GraphUpdate { reason } => write!(
                f,
                "the graph differs in more than parameters (CUgraphExecUpdateResult {reason}{}): \
                 instantiate it instead",
                update_reason(*reason)
            ),
            Error::BadPath(path) => write!(f, "the path {} has a NUL in it", path.shown()),
            Error::ContextReset => f.write_str(
                "the device's primary context was reset, and what was made in it is gone: make a \
                 new one with `Context::primary`",
            ),
            Error::DifferentContexts { what } => write!(f, "{what} belong to different contexts"),
        }
    }
}

/// Why there may be fewer than the machine has.
fn hidden() -> String {
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(visible) => format!(", of those that CUDA_VISIBLE_DEVICES=\"{visible}\" shows"),
        Err(_) => String::new(),
    }
}

fn direction(axis: usize) -> &'static str {
    ["x", "y", "z"].get(axis).copied().unwrap_or("?")
}

fn shape([x, y, z]: &[u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

fn update_reason(reason: u32) -> &'static str {
    match reason {
        2 => ", the topology changed",
        3 => ", the type of a node changed",
        4 => ", the function of a launch changed",
        5 => ", parameters changed that cannot be",
        6 => ", something in it is not supported",
        7 => ", the function of a launch changed in a way that is not supported",
        8 => ", attributes of a node changed",
        _ => "",
    }
}

fn listing(words: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!(": {words} {}", names.join(", "))
}

fn declared(declaration: &Option<String>) -> String {
    declaration
        .as_ref()
        .map(|text| format!(" (`{text}`)"))
        .unwrap_or_default()
}

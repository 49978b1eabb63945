//! `ptxkit occupancy`: how many blocks of a kernel a multiprocessor holds at once.

mod chart;
mod clusters;
mod kernels;
mod report;
mod svg;

use std::path::PathBuf;

use super::matching::unknown_kernel;
use super::quantity;
use clusters::{Clusters, Gpcs};
use input::ShowName as _;
use kernels::{KernelResources, Registers};
use ptxkit::image::Target;
use ptxkit::occupancy::{
    BlockResources, MAX_BARRIERS, MAX_CLUSTER, MAX_REGISTERS, MAX_THREADS, Multiprocessor,
};
use report::Report;
use terminal::failure::{Failure, VERIFIED};
use terminal::output::{json_line, print};

pub const AFTER_HELP: &str = "\
The registers of a kernel in PTX are an estimate: what its live values take. A cubin has the exact
number, and --registers replaces both.

Exit status: 0 done, 2 the file could not be read, or an option is out of range.";

/// The arguments of `ptxkit occupancy`.
#[derive(Debug, clap::Args)]
pub struct OccupancyArgs {
    /// PTX, a cubin or a fatbin, or a program, shared object, object file or archive with images;
    /// without a file, --target and the other options describe a kernel
    #[arg(conflicts_with = "blob")]
    file: Option<PathBuf>,
    /// A blob of the compute cache instead of a file: its key, or an unambiguous prefix of it
    #[arg(long, value_name = "KEY")]
    blob: Option<String>,
    /// Only this kernel
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The architecture of the device: sm_86, sm_90; the default is that of the image
    #[arg(long)]
    target: Option<Target>,
    /// Threads of a block; the default is what the kernel declares, or 256
    #[arg(long, value_name = "X[,Y,Z]", value_parser = super::run::extent)]
    block: Option<[u32; 3]>,
    /// Registers of a thread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_REGISTERS)))]
    registers: Option<u32>,
    /// Bytes of static shared memory, or as 48K
    #[arg(long, value_name = "BYTES", value_parser = quantity::size)]
    shared: Option<u64>,
    /// Bytes of dynamic shared memory, or as 48K
    #[arg(long, value_name = "BYTES", value_parser = quantity::size, default_value = "0")]
    dynamic_shared: u64,
    /// Barriers of a block
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_BARRIERS)))]
    barriers: Option<u32>,
    /// The percentage of the on-chip memory that the kernel prefers as shared memory
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    carveout: Option<u32>,
    /// Blocks of a cluster, from sm_90 on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_CLUSTER)))]
    cluster: Option<u32>,
    /// The multiprocessors of each GPC of the device, which decide how many clusters it holds: 2x18,5x16,8
    #[arg(long, value_name = "GPCS", value_parser = clusters::gpcs, requires = "cluster")]
    gpcs: Option<Gpcs>,
    /// The format; the default follows from the name of --output
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The file to write, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    /// The curves as a picture for a browser
    Svg,
}

/// The block size of a kernel that declares none: that of NVIDIA's calculator.
const DEFAULT_THREADS: u32 = 256;

/// Prints the occupancy of each kernel; returns the exit status.
///
/// # Errors
/// The file cannot be read, has no such kernel, or no image for the target; or the block is
/// larger than any.
pub fn run(args: &OccupancyArgs) -> Result<u8, Failure> {
    let format = format(args)?;
    let mut kernels = match (&args.file, &args.blob) {
        (Some(file), _) => kernels::of_file(file, args.target)?,
        (None, Some(key)) => kernels::of_blob(key)?,
        (None, None) => vec![described(args)?],
    };
    if let Some(name) = &args.kernel {
        let place = match (&args.file, &args.blob) {
            (Some(file), _) => file.shown().to_string(),
            (None, key) => key.clone().unwrap_or_default(),
        };
        if !kernels.iter().any(|kernel| kernel.name == *name) {
            let all = kernels.iter().map(|kernel| kernel.name.as_str());
            return Err(unknown_kernel(name, &place, all));
        }
        kernels.retain(|kernel| kernel.name == *name);
    }
    let reports: Vec<Report> = kernels
        .into_iter()
        .map(|kernel| of(kernel, args))
        .collect::<Result<_, _>>()?;
    let text = match format {
        Format::Text => {
            let texts: Vec<String> = reports.iter().map(Report::text).collect();
            texts.join("\n")
        }
        Format::Json => json_line(&reports.iter().map(Report::json).collect::<Vec<_>>()),
        Format::Svg => svg::document(&reports),
    };
    match &args.output {
        None => print(&text),
        Some(path) => std::fs::write(path, text)
            .map_err(|error| Failure::new(format!("{}: {error}", path.shown())))?,
    }
    Ok(VERIFIED)
}

fn format(args: &OccupancyArgs) -> Result<Format, Failure> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let extension = args.output.as_deref().and_then(|path| path.extension());
    match extension.map(|extension| extension.to_string_lossy().to_ascii_lowercase()) {
        None => Ok(Format::Text),
        Some(name) => match name.as_str() {
            "txt" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            "svg" => Ok(Format::Svg),
            other => Err(Failure::new(format!("no format is named .{other}"))
                .help("name it .txt, .json or .svg, or give --format")),
        },
    }
}

/// The kernel that the options describe alone.
fn described(args: &OccupancyArgs) -> Result<KernelResources, Failure> {
    let nothing = || {
        Failure::new("there is nothing to calculate from").help(
            "give a file, or the kernel itself: `ptxkit occupancy --target sm_90 --block 256 \
             --registers 40 --shared 16K`",
        )
    };
    if args.registers.is_none() && args.shared.is_none() && args.block.is_none() {
        return Err(nothing());
    }
    let target = args.target.ok_or_else(|| {
        Failure::new("the limits depend on the architecture")
            .help("give it with --target, such as --target sm_90")
    })?;
    Ok(KernelResources::unnamed(target))
}

/// The occupancy of a kernel with what the options replace.
fn of(kernel: KernelResources, args: &OccupancyArgs) -> Result<Report, Failure> {
    let target = args.target.unwrap_or(kernel.target);
    let processor = u16::try_from(target.number).ok();
    let processor = processor.and_then(Multiprocessor::of).ok_or_else(|| {
        let first = Multiprocessor::all().map(|one| format!("sm_{}", one.number));
        Failure::new(format!("the limits of {target} are not published")).help(format!(
            "give one of these with --target: {}",
            first.collect::<Vec<_>>().join(", ")
        ))
    })?;
    let given = args
        .block
        .map(|[x, y, z]| x.saturating_mul(y).saturating_mul(z));
    let (threads, threads_from) = match (given, kernel.threads) {
        (Some(threads), _) => (threads, "given"),
        (None, Some((threads, directive))) => (threads, directive),
        (None, None) => (DEFAULT_THREADS, "default"),
    };
    if threads > MAX_THREADS {
        return Err(Failure::new(format!(
            "a block of {threads} threads: no device has blocks of more than {MAX_THREADS}"
        ))
        .help("give fewer with --block"));
    }
    let registers = match args.registers {
        Some(count) => Registers::Given(count),
        None => kernel.registers.bounded(processor, &kernel),
    };
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let fixed = bytes(args.shared.unwrap_or(kernel.shared));
    let dynamic = bytes(args.dynamic_shared);
    let block = BlockResources {
        threads,
        registers: registers.count(),
        shared: fixed.saturating_add(dynamic),
        barriers: args.barriers.unwrap_or(kernel.barriers),
        carveout: args.carveout,
    };
    let gpcs = args.gpcs.as_ref();
    let clusters = args
        .cluster
        .map(|size| Clusters::new(processor, &block, size, gpcs));
    Ok(Report {
        occupancy: processor.occupancy(&block),
        clusters: clusters.transpose()?,
        kernel,
        target,
        processor,
        block,
        threads_from,
        registers,
        fixed,
        dynamic,
    })
}
